"""The kit on the HIP backend, whose runtime is the stub; test_hip_stub runs it in a process."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_arrays import GpuArray
from hip_stub import StubbedHip

from xpu.testing import BackendSuite


class TestStubbedHip(BackendSuite):
    backend = StubbedHip

    def array_of(self, array: np.ndarray[Any, Any]) -> Any:
        return GpuArray.of(array, StubbedHip().open(0))

    def numpy_of(self, value: Any) -> np.ndarray[Any, Any]:
        return StubbedHip().open(0).to_host(value.held)
