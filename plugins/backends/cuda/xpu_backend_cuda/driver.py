"""The CUDA driver, through cuda-python: found when it is first asked for, and its answers checked.

Importing this imports nothing of CUDA's. Everything here may be called from any thread.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from typing import Any, Final

from xpu.spec import Availability
from xpu_backend_cuda.errors import error_name, explained
from xpu_backend_cuda.toolchain import FIX

BINDINGS: Final = "cuda.bindings.driver"
_LIBRARY: Final = "libcuda.so.1"
_DRIVER: Final = "install NVIDIA's driver (580 or newer), and in a container pass the GPU through"
_LEAST_VERSION: Final = 13000
"""Code of NVRTC 13 runs on no older driver. Source: CUDA 13.0 release notes, minor versions."""


def bindings() -> Any:
    """Return the module ``cuda.bindings.driver``.

    Raises
    ------
    ImportError
        It is not installed.
    """
    return importlib.import_module(BINDINGS)


def availability() -> Availability:
    """Say whether there is a device; never raises.

    The driver is looked for before the bindings are imported, which takes a tenth of a
    second: on a machine without it this is asked at every start, too.
    """
    missing = _missing_driver()
    if missing:
        return Availability(False, f"NVIDIA's driver is not here: {missing}", _DRIVER)
    try:
        if not _has_bindings():
            return Availability(False, "the package cuda-bindings is not installed", FIX)
        cu = bindings()
        code = cu.cuInit(0)[0]
        if code:
            return Availability(False, f"the driver starts with {error_name(code)}", _fix(code))
        version = int(checked(cu.cuDriverGetVersion(), "the driver does not say its version"))
        if version < _LEAST_VERSION:
            told = f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}"
            return Availability(False, f"{told}; needed is 13.0", _DRIVER)
        if device_count() == 0:
            return Availability(False, "the driver shows no device", _fix(None))
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return Availability(False, f"the driver cannot be asked: {told}", FIX)
    return Availability(True)


def checked(result: Any, what: str) -> Any:
    """Return what a call of the driver gives beside its result code.

    Parameters
    ----------
    result
        The tuple that a function of the bindings returns.
    what
        What it means when the call failed, for the message.

    Raises
    ------
    CudaError
        The code is not success.
    """
    if result[0]:
        raise explained(result[0], what, text=_words(result[0]))
    if len(result) <= 2:
        return result[1] if len(result) == 2 else None
    return result[1:]


def started() -> Any:
    """Return the bindings with the driver initialised.

    Raises
    ------
    CudaError
        There is no device, or this process cannot use it.
    """
    cu = bindings()
    checked(cu.cuInit(0), "CUDA cannot be used")
    return cu


def device_count() -> int:
    """Return how many devices the driver shows."""
    return int(checked(bindings().cuDeviceGetCount(), "devices cannot be counted"))


def _words(code: Any) -> str:
    try:
        failed, text = bindings().cuGetErrorString(code)
        return "" if failed or not text else text.decode()
    except Exception:
        # The code is a newer driver's: its name or number has to do.
        return ""


def _missing_driver() -> str:
    """Say why the driver's library cannot be loaded; the empty text when it can."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return str(error)
    return ""


def _has_bindings() -> bool:
    try:
        return importlib.util.find_spec(BINDINGS) is not None
    except (ImportError, ValueError):
        return False


def _fix(code: Any) -> str:
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None and (code is None or error_name(code) == "CUDA_ERROR_NO_DEVICE"):
        return f"CUDA_VISIBLE_DEVICES is {shown!r}: unset it, or name a device that there is"
    return "look at what nvidia-smi says"
