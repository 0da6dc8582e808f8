"""The kit on the HIP backend, whose runtime is the stub; run by test_hip_stub in its own process."""

from __future__ import annotations

from typing import Any

import numpy as np
from hip_stub import GpuArray, StubbedHip

from xpu.testing import BackendSuite


class TestStubbedHip(BackendSuite):
    backend = StubbedHip

    def array_of(self, array: np.ndarray[Any, Any]) -> Any:
        return GpuArray(array, StubbedHip().open(0))

    def numpy_of(self, value: Any) -> np.ndarray[Any, Any]:
        return StubbedHip().open(0).to_host(value.held)
