"""Arrays in the memory of the stub, as torch and CuPy for ROCm describe theirs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from xpu.spec import dlpack

Array = np.ndarray[Any, Any]
ROCM = 10  # kDLROCM of dlpack.h


class GpuArray:
    """An array on a device, with views as numpy has them.

    `shape` is an array of the host that lends shape, strides and places, and whose content is
    nothing; `held` is the memory.
    """

    def __init__(self, held: Any, shape: Array, base: Array, *, is_read_only: bool = False) -> None:
        self.held = held
        self._shape = shape
        self._base = base
        self._is_read_only = is_read_only

    @classmethod
    def of(cls, array: Array, device: Any) -> GpuArray:
        shape = np.empty(array.shape, array.dtype)
        return cls(device.from_host(array), shape, shape)

    @property
    def address(self) -> int:
        return int(self.held.address + self._shape.ctypes.data - self._base.ctypes.data)

    def __getitem__(self, key: Any) -> GpuArray:
        return GpuArray(self.held, self._shape[key], self._base)

    @property
    def T(self) -> GpuArray:  # noqa: N802 - numpy's name
        return GpuArray(self.held, self._shape.T, self._base)

    def frozen(self) -> GpuArray:
        return GpuArray(self.held, self._shape, self._base, is_read_only=True)

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        shape = self._shape
        place = (self.address, self._is_read_only)
        described = {"shape": shape.shape, "typestr": shape.dtype.str, "data": place, "version": 3}
        return described if shape.flags.c_contiguous else {**described, "strides": shape.strides}


class DlpackArray:
    """The same, through DLPack alone: numpy's capsule, with the place and the kind of a GPU's."""

    def __init__(self, array: GpuArray, kind: int = ROCM, number: int = 0) -> None:
        self.array = array
        self.place = (kind, number)
        self.asked: list[Mapping[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        capsule = self.array._shape.__dlpack__()
        managed = dlpack._Managed.from_address(dlpack._pointer(capsule, b"dltensor"))
        managed.tensor.data = ctypes.c_void_p(self.array.address)
        managed.tensor.device_type, managed.tensor.device_id = self.place
        return capsule
