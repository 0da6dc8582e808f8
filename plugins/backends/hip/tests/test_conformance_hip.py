"""The HIP backend against the kit; on a machine without a GPU its compiler half alone.

`test_hip_stub` runs the whole kit, against a runtime over host memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpu.testing import BackendSuite
from xpu_backend_hip.backend import HipBackend


class _Target:
    """The device's own, else an APU's; asked when the tests run, not when they are found."""

    def __get__(self, _instance: object, _owner: type) -> str | None:
        return None if HipBackend().availability().is_available else "gfx1151"


class TestHip(BackendSuite):
    backend = HipBackend
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
