"""Tests of how a device takes the arrays of callers: without a copy, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray
from xpu.testing.backend_fixtures import BackendFixtures


class ArrayTests(BackendFixtures):
    """The arrays of callers, taken without a copy."""

    def test_an_array_is_taken_without_a_copy(
        self, device: Device, rng: np.random.Generator
    ) -> None:
        array = rng.standard_normal((5, 33)).astype(np.float32)
        value = self.array_of(array)
        taken = self.taken(device, value)
        assert (tuple(taken.shape), taken.dtype, taken.nbytes) == ((5, 33), "float32", array.nbytes)
        assert device.to_host(taken).tobytes() == array.tobytes()
        device.poison(taken)
        device.synchronize()
        assert bool(np.isnan(self.numpy_of(value)).all()), "what the device wrote is not in it"

    def test_dlpack_is_taken_without_a_copy(self, device: Device, rng: np.random.Generator) -> None:
        array = rng.standard_normal(65).astype(np.float32)
        value = self.array_of(array)
        if not hasattr(value, "__dlpack__"):
            pytest.skip(f"DLPack: a {type(value).__name__} does not offer it")
        taken = self.taken(device, Exporter(value), "DLPack")
        assert (tuple(taken.shape), taken.dtype) == ((65,), "float32")
        device.poison(taken)
        device.synchronize()
        assert bool(np.isnan(self.numpy_of(value)).all()), "what the device wrote is not in it"

    def test_an_array_of_another_device_is_refused(self, device: Device) -> None:
        value = self.array_of(np.zeros(4, np.float32))
        self.taken(device, value)
        # 15: a browser's device. Source: DLDeviceType of dlpack.h.
        with pytest.raises(XpuLaunchException):
            device.import_array(Exporter(value, device=(15, 0)), writable=False)

    @pytest.mark.parametrize(
        "value",
        [None, 3, "text", [1.0, 2.0], object()],
        ids=["None", "int", "str", "list", "object"],
    )
    def test_what_is_no_array_is_refused_by_name(self, device: Device, value: Any) -> None:
        with pytest.raises(XpuLaunchException, match=type(value).__name__):
            device.import_array(value, writable=False)

    def test_an_array_with_gaps_is_refused_by_name(self, device: Device) -> None:
        value = self.array_of(np.zeros((6, 6), np.float32))
        self.taken(device, value)
        for gapped in (value[:, ::2], value.T[1:]):
            with pytest.raises(XpuLaunchException, match="contiguous"):
                device.import_array(gapped, writable=False)

    def test_a_numpy_array_that_cannot_be_used_is_refused_by_name(self, device: Device) -> None:
        plain = np.zeros((6, 6), np.float32)
        self.taken(device, plain, "numpy arrays")
        with pytest.raises(XpuLaunchException, match="order"):
            device.import_array(plain.astype(plain.dtype.newbyteorder()), writable=False)
        plain.flags.writeable = False
        with pytest.raises(XpuLaunchException, match=r"writ|read-only"):
            device.import_array(plain, writable=True)
        assert device.import_array(plain, writable=False).nbytes == plain.nbytes

    def taken(self, device: Device, value: Any, what: str = "arrays of a caller") -> DeviceArray:
        """Import an array; the test is skipped where the device cannot reach such a one."""
        try:
            return device.import_array(value, writable=True)
        except XpuLaunchException as error:
            pytest.skip(f"{what}: {error}")


class Exporter:
    """Memory that is offered through DLPack alone."""

    def __init__(self, value: Any, device: tuple[int, int] | None = None) -> None:
        self._value = value
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._device or self._value.__dlpack_device__()
        return kind, number
