"""The library of the emulated part: routines of `xpu.spec.routines`, by numpy on the host.

Plain and honest, so that families that call a library can be tried without a part: inputs are
widened to float32, and what reads memory that nothing wrote, or beyond an end, is a fault.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import GEMM_NT_BF16, DeviceArray, LoadedKernel
from xpu_backend_emulator import memory
from xpu_backend_emulator.arena import ARENA

if TYPE_CHECKING:
    from numpy.typing import NDArray


def library(routine: str) -> str:
    """Return name and version of the library that has a routine.

    Raises
    ------
    XpuBuildError
        There is no such routine.
    """
    if routine != GEMM_NT_BF16:
        raise XpuBuildError(
            f"backend 'emulator' offers no routine {routine!r} of a library; it has: {GEMM_NT_BF16}"
        )
    return f"numpy {np.__version__}"


class EmulatorRoutine(LoadedKernel):
    """A routine, ready to be launched."""

    def __init__(self, name: str) -> None:
        try:
            library(name)
        except XpuBuildError as error:
            raise XpuLaunchException(str(error)) from None
        self.entry = name


def packed(
    routine: EmulatorRoutine, buffers: Sequence[DeviceArray], sizes: Sequence[int]
) -> Callable[[], None]:
    """Pack one call of a routine; it keeps none of the arrays.

    Raises
    ------
    XpuLaunchException
        Arrays and sizes are not those of the routine. Each call of the result raises it when
        memory is read that nothing wrote.
    """
    if (len(buffers), len(sizes)) != (3, 3):
        raise XpuLaunchException(
            f"{routine.entry} takes 3 arrays (W, x, y) and 3 sizes (m, n, k), given "
            f"{len(buffers)} and {len(sizes)}"
        )
    m, n, k = sizes
    weights = _Matrix("W", buffers[0], (n, k), "uint16")
    x = _Matrix("x", buffers[1], (m, k), "uint16")
    y = _Matrix("y", buffers[2], (m, n), "float32")

    def call() -> None:
        with ARENA.lock:
            for matrix in (weights, x):
                if not matrix.notes.all():
                    raise XpuLaunchException(
                        f"{routine.entry} reads {matrix.name} where nothing wrote it"
                    )
            with np.errstate(all="ignore"):
                y.values[...] = _widened(x.values) @ _widened(weights.values).T
            y.notes[...] = 1

    return call


class _Matrix:
    """A matrix in memory of the part, and the notes of its bytes, by their addresses alone.

    Raises
    ------
    XpuLaunchException
        The memory ends before the matrix does.
    """

    def __init__(self, name: str, array: DeviceArray, shape: tuple[int, int], dtype: str) -> None:
        self.name = name
        nbytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        if array.nbytes < nbytes:
            raise XpuLaunchException(
                f"{name} of {shape[0]} x {shape[1]} {dtype} takes {nbytes} bytes, its memory has "
                f"{array.nbytes}"
            )
        self.values = _at(array.address, nbytes).view(dtype).reshape(shape)
        notes = memory.written(array)
        # Memory from outside counts as written.
        self.notes = np.ones(nbytes, np.uint8) if notes is None else _at(notes.ctypes.data, nbytes)


def _at(address: int, nbytes: int) -> NDArray[np.uint8]:
    raw = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.ndarray((nbytes,), np.uint8, memoryview(raw))


def _widened(bits: NDArray[Any]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)
