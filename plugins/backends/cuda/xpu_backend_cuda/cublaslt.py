"""cuBLASLt, through ctypes: found when it is first asked for, and its answers checked.

It needs no device to be found and asked its version. Knows no routine of XPU's; `blas` calls it.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import GEMM_NT_BF16
from xpu_backend_cuda.libraries import opened

FIX: Final = "pip install 'xpu-orchestrator[cuda-blas]'"
_SIGNATURES: Final = {
    "cublasLtMatmul": (
        *[ctypes.c_void_p] * 14,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ),
    "cublasLtMatmulAlgoGetHeuristic": (
        *[ctypes.c_void_p] * 7,
        ctypes.c_int,
        *[ctypes.c_void_p] * 2,
    ),
    "cublasLtMatrixLayoutCreate": (
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_int64,
    ),
    "cublasLtMatmulDescCreate": (ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
    "cublasLtMatmulDescSetAttribute": (
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ),
    "cublasLtMatmulPreferenceCreate": (ctypes.c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ),
    "cublasLtMatrixLayoutDestroy": (ctypes.c_void_p,),
    "cublasLtMatmulDescDestroy": (ctypes.c_void_p,),
    "cublasLtMatmulPreferenceDestroy": (ctypes.c_void_p,),
    "cublasLtCreate": (ctypes.c_void_p,),
    "cublasLtDestroy": (ctypes.c_void_p,),
}
"""What each function takes. Source: cublasLt.h of cuBLAS 13."""


class Heuristic(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``: an algorithm, and the workspace that it takes."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """The library at a path.

    Raises
    ------
    OSError
        It cannot be loaded, or lacks a function.
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        try:
            for name, arguments in _SIGNATURES.items():
                getattr(self._library, name).argtypes = arguments
            self._library.cublasLtGetVersion.restype = ctypes.c_size_t
            self._library.cublasLtGetStatusName.restype = ctypes.c_char_p
        except AttributeError as error:
            raise OSError(str(error)) from error

    def version(self) -> str:
        """Return the version, for instance ``13.10.0``. Source: CUBLAS_VERSION of cublas_api.h."""
        number = int(self._library.cublasLtGetVersion())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def function(self, name: str) -> Any:
        """Return a function; its result is a status, 0 when it did what it should."""
        return getattr(self._library, name)

    def checked(self, status: int, what: str) -> None:
        """Raise unless a status is success.

        Raises
        ------
        XpuLaunchException
            It says what failed, and the library's name for the status.
        """
        if status:
            name = self._library.cublasLtGetStatusName(status).decode()
            raise XpuLaunchException(
                f"{what}: {name}; nothing was launched, unless an earlier launch on the device "
                "failed and this tells of it"
            )

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that makes something, and return that."""
        found = ctypes.c_void_p()
        self.checked(self.function(name)(ctypes.byref(found), *arguments), f"{name} failed")
        return found


@functools.cache
def find_cublaslt() -> CublasLt:
    """Find the library.

    Raises
    ------
    XpuBuildError
        It is not there, or cannot be loaded.
    """
    return opened("cublasLt", "cuBLASLt", FIX, CublasLt)


def library(routine: str) -> str:
    """Return name and version of the library that has a routine.

    Raises
    ------
    XpuBuildError
        There is no such routine, or the library is not here; the message says what to install.
    """
    if routine != GEMM_NT_BF16:
        raise XpuBuildError(
            f"backend 'cuda' offers no routine {routine!r} of a library; it has: {GEMM_NT_BF16}"
        )
    return f"cublaslt {find_cublaslt().version()}"
