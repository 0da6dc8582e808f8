"""Tests of the routines of libraries that a backend offers, against numpy in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import GEMM_NT_BF16, Device, DeviceArray, Launch
from xpu.testing.backend_fixtures import BackendFixtures
from xpu.testing.device_tests import part
from xpu.testing.workbench import Workbench

_GUARD: Final = 256
_ERROR: Final = 1e-5
"""Largest error over the norms of both rows that sums in float32 may have."""


class RoutineTests(BackendFixtures):
    """Products by a library; skipped where the backend offers none."""

    def test_a_library_that_nobody_has_is_refused_by_name(self, bench: Workbench) -> None:
        with pytest.raises(XpuBuildError, match="no_such_routine"):
            bench.backend.library("no_such_routine")

    def test_a_routine_that_nobody_has_is_refused_by_name(self, device: Device) -> None:
        with pytest.raises(XpuLaunchException, match="no_such_routine"):
            device.routine("no_such_routine")

    @pytest.mark.parametrize(
        ("m", "n", "k"), [(1, 1, 1), (3, 17, 33), (16, 64, 256), (65, 129, 500)]
    )
    def test_a_library_multiplies(
        self, bench: Workbench, device: Device, rng: np.random.Generator, m: int, n: int, k: int
    ) -> None:
        product = Product(bench, device, rng, (m, n, k))
        launch = product.pack()
        for _ in range(2):
            launch()
            assert product.error() < _ERROR

    def test_a_row_that_is_not_finite_harms_no_other_row_of_a_product(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        product = Product(bench, device, rng, (9, 33, 64), bad_row=4)
        product.pack()()
        assert product.error() < _ERROR
        product.pack()()
        assert np.isnan(product.y()[4]).all()

    @pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0)])
    def test_a_product_without_rows_launches_nothing(
        self, bench: Workbench, device: Device, rng: np.random.Generator, m: int, n: int
    ) -> None:
        product = Product(bench, device, rng, (m, n, 8))
        product.pack()()
        assert product.y().size == 0

    def test_a_call_with_other_arrays_than_a_routines_is_refused(
        self, bench: Workbench, device: Device, rng: np.random.Generator
    ) -> None:
        product = Product(bench, device, rng, (3, 4, 5))
        with pytest.raises(XpuLaunchException, match=GEMM_NT_BF16):
            product.pack(product.arrays[:2])


class Product:
    """Random matrices on a device, and room for their product between guards."""

    def __init__(
        self,
        bench: Workbench,
        device: Device,
        rng: np.random.Generator,
        sizes: tuple[int, int, int],
        bad_row: int | None = None,
    ) -> None:
        try:
            bench.backend.library(GEMM_NT_BF16)
        except XpuBuildError as error:
            pytest.skip(f"{GEMM_NT_BF16}: {error}")
        m, n, k = self.sizes = sizes
        weights, x = (_bfloat16(rng.standard_normal((rows, k))) for rows in (n, m))
        if bad_row is not None:
            x[bad_row, k // 2] = _bfloat16(np.array([np.nan]))[0]
        self._operands = _widened(weights), _widened(x)
        self._device = device
        self._room = device.allocate(4 * m * n + 2 * _GUARD, poisoned=True)
        place = part(self._room, _GUARD, 4 * m * n)
        self.arrays = [device.from_host(weights), device.from_host(x), place]

    def pack(self, arrays: Sequence[DeviceArray] | None = None) -> Callable[[], None]:
        """Pack a call, on other arrays where they are given."""
        routine = self._device.routine(GEMM_NT_BF16)
        return self._device.launcher(routine, Launch(), arrays or self.arrays, self.sizes)

    def y(self) -> NDArray[Any]:
        """Return the result; nothing else may be written. What was there is poisoned again."""
        self._device.synchronize()
        room = self._device.to_host(self._room)
        self._device.poison(self._room)
        assert (room[:_GUARD] == 0xFF).all(), "something was written before the result"
        assert (room[-_GUARD:] == 0xFF).all(), "something was written behind the result"
        return room[_GUARD:-_GUARD].view(np.float32).reshape(self.sizes[:2])

    def error(self) -> float:
        """Return the largest error of the finite rows, over the norms of both operands' rows."""
        weights, x = self._operands
        norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(weights, axis=1)
        finite = np.isfinite(norms).all(axis=1)
        return float((np.abs(self.y() - x @ weights.T) / norms)[finite].max())


def _bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _widened(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
