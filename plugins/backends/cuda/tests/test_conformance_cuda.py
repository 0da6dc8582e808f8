"""The CUDA backend against the kit; on a machine without a GPU its compiler half alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpu.testing import BackendSuite
from xpu_backend_cuda.backend import CudaBackend


class _Target:
    """The device's own, else an H200's; asked when the tests run, not when they are found."""

    def __get__(self, _instance: object, _owner: type) -> str | None:
        return None if CudaBackend().availability().is_available else "sm_90a"


class TestCuda(BackendSuite):
    backend = CudaBackend
    target = _Target()

    def array_of(self, array: np.ndarray[Any, Any]) -> Any:
        """Return a tensor of torch's on the device; without torch what the kit gives."""
        try:
            import torch
        except ImportError:
            return array
        return torch.from_numpy(array.copy()).cuda()

    def numpy_of(self, value: Any) -> np.ndarray[Any, Any]:
        """Return what a tensor holds now."""
        return value if isinstance(value, np.ndarray) else value.cpu().numpy()
