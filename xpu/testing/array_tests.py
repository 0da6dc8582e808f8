"""Tests of how a device takes the arrays of callers: without a copy, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray
from xpu.testing.backend_fixtures import BackendFixtures
from xpu.testing.workbench import Workbench


class ArrayTests(BackendFixtures):
    """The arrays of callers, taken without a copy."""

    @pytest.fixture
    def taken(self, bench: Workbench, device: Device) -> Callable[[Any], DeviceArray]:
        """Import an array of a caller; the test is skipped where the device reaches no such one."""

        def imported(value: Any) -> DeviceArray:
            try:
                return device.import_array(value, writable=True)
            except XpuLaunchException as error:
                what = f"a caller's {type(value).__name__}: {error}"
                if bench.backend.dialect == "c":
                    pytest.fail(f"{what}; kernels in `c` run on the host, so it has to be taken")
                pytest.skip(f"{what}; if callers have other arrays, override array_of and numpy_of")

        return imported

    def test_an_array_is_taken_without_a_copy(
        self, device: Device, rng: np.random.Generator, taken: Callable[[Any], DeviceArray]
    ) -> None:
        array = rng.standard_normal((5, 33)).astype(np.float32)
        value = self.array_of(array)
        given = taken(value)
        assert (tuple(given.shape), given.dtype, given.nbytes) == ((5, 33), "float32", array.nbytes)
        assert device.to_host(given).tobytes() == array.tobytes()
        device.poison(given)
        device.synchronize()
        assert bool(np.isnan(self.numpy_of(value)).all()), "what the device wrote is not in it"

    def test_dlpack_is_taken_without_a_copy(
        self, device: Device, rng: np.random.Generator, taken: Callable[[Any], DeviceArray]
    ) -> None:
        value = self.array_of(rng.standard_normal(65).astype(np.float32))
        if not hasattr(value, "__dlpack__"):
            pytest.skip(f"DLPack: a {type(value).__name__} does not offer it")
        taken(value)
        given = device.import_array(Exporter(value), writable=True)
        assert (tuple(given.shape), given.dtype) == ((65,), "float32")
        device.poison(given)
        device.synchronize()
        assert bool(np.isnan(self.numpy_of(value)).all()), "what the device wrote is not in it"

    def test_an_array_of_another_device_is_refused(
        self, device: Device, taken: Callable[[Any], DeviceArray]
    ) -> None:
        value = self.array_of(np.zeros(4, np.float32))
        taken(value)
        # 15: a browser's device. Source: DLDeviceType of dlpack.h.
        with pytest.raises(XpuLaunchException):
            device.import_array(Exporter(value, device=(15, 0)), writable=False)

    @pytest.mark.parametrize(
        "value",
        [None, 3, "text", [1.0, 2.0], object()],
        ids=["None", "int", "str", "list", "object"],
    )
    def test_what_is_no_array_is_refused_by_name(self, device: Device, value: Any) -> None:
        refused(device, value, type(value).__name__)

    def test_an_array_with_gaps_is_refused_by_name(
        self, device: Device, taken: Callable[[Any], DeviceArray]
    ) -> None:
        value = self.array_of(np.zeros((6, 6), np.float32))
        taken(value)
        for gapped in (value[:, ::2], value.T[1:]):
            refused(device, gapped, "contiguous", "gap", "stride")

    def test_a_numpy_array_that_cannot_be_used_is_refused_by_name(
        self, device: Device, taken: Callable[[Any], DeviceArray]
    ) -> None:
        plain = np.zeros((6, 6), np.float32)
        taken(plain)
        swapped = plain.astype(plain.dtype.newbyteorder())
        refused(device, swapped, "byte order", "byteorder", "endian", "byte-swapped")
        refused(device, np.zeros(25, np.uint8)[1:].view(np.float32), "align")
        plain.flags.writeable = False
        refused(device, plain, "writable", "writeable", "read-only", "readonly", writable=True)
        assert device.import_array(plain, writable=False).nbytes == plain.nbytes


def refused(device: Device, value: Any, *words: str, writable: bool = False) -> None:
    """Assert that an array is refused, and that one of the words says why."""
    with pytest.raises(XpuLaunchException) as refusal:
        device.import_array(value, writable=writable)
    told = str(refusal.value)
    is_named = any(word.lower() in told.lower() for word in words)
    assert is_named, f"{told!r} does not say what is wrong with the array; say: {', '.join(words)}"


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
