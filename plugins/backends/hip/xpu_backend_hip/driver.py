"""AMD's runtime, found when it is first asked for, and its answers checked.

hip-python gives its constants, and the layout of a device's properties; `calls` has the functions.
Importing this imports nothing of either. Everything here may be called from any thread.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any, Final

from xpu.spec import Availability
from xpu_backend_hip.calls import Calls
from xpu_backend_hip.errors import explained

FIX: Final = "pip install 'xpu-orchestrator[hip]'"
BINDINGS: Final = ("rocm.bindings.hip", "hip.hip")
"""What hip-python is called: since release 10, and before."""
_LIBRARY: Final = "libamdhip64.so"
_RELEASES: Final = range(12, 4, -1)
"""Numbers that a distribution's library may bear behind its name, without the plain one."""
_PLACES: Final = ("ROCM_PATH", "ROCM_HOME")
_RUNTIME: Final = "install ROCm 6.0 or newer, or say in ROCM_PATH where it is"
SEVERAL: Final = "import the framework that brings one first, or set ROCM_PATH to the folder of its"
_LEAST_VERSION: Final = 60000000
"""Code objects of version 5, and memory types by their numbers of today. Source: HIP 6.0's
changelog; HIP_VERSION of hip_version.h is major * 10^7 + minor * 10^5 + patch."""


def bindings() -> Any:
    """Return hip-python's module ``hip``.

    Raises
    ------
    ImportError
        It is not installed.
    """
    for name in BINDINGS:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ImportError(f"the package hip-python is not installed; {FIX}")


def availability() -> Availability:
    """Say whether there is a device; never raises.

    The library is asked before the bindings are imported, which takes a tenth of a second: on a
    machine without a device this is asked at every start, too.
    """
    try:
        if not _has_bindings():
            return Availability(False, "the package hip-python is not installed", FIX)
        path, missing = library()
        if missing:
            return Availability(False, f"HIP's runtime is not here: {missing}", _RUNTIME)
        hip = calls(path)
        if hip.hipInit(0)[0]:
            # Some releases start with an error of another name, and say the cause when counting.
            code = hip.hipGetDeviceCount()[0] or hip.hipInit(0)[0]
            told = f"{hip.error_name(code)} ({hip.error_text(code)})"
            return Availability(False, f"HIP's runtime {path} starts with {told}", _fix())
        code, version = hip.hipRuntimeGetVersion()
        if code or version < _LEAST_VERSION:
            told = f"HIP's runtime {path} is of release {version_text(version)}"
            return Availability(False, f"{told}; needed is 6.0", _RUNTIME)
        code, count = hip.hipGetDeviceCount()
        if code or count == 0:
            return Availability(False, f"HIP's runtime {path} shows no device", _fix())
        bindings()
        several = several_runtimes()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return Availability(False, f"HIP's runtime cannot be asked: {told}", _RUNTIME)
    if several:
        told = f"this process has two runtimes of HIP, {several}, which share nothing"
        return Availability(False, told, SEVERAL)
    return Availability(True)


def library() -> tuple[str, str]:
    """Return the runtime's library, and why there is none.

    One that this process has is taken: a framework may have brought its own. Else it is that of
    ROCm's packages for Python, of ``$ROCM_PATH``, of ``/opt/rocm``, or of the system's loader.
    """
    for mapped in _mapped():
        return mapped, ""
    sdk = _of_sdk()
    named = next(filter(None, map(os.environ.get, _PLACES)), "/opt/rocm")
    for path in filter(None, (sdk, Path(named) / "lib" / _LIBRARY)):
        if path.is_file():
            return str(path), ""
    said = ""
    for name in (_LIBRARY, *(f"{_LIBRARY}.{release}" for release in _RELEASES)):
        try:
            ctypes.CDLL(name)
        except OSError as error:
            said = said or str(error)
        else:
            return name, ""
    return "", f"{said}{_named_without()}"


def _named_without() -> str:
    """Say which variable names a place of the runtime; for where it is not found there."""
    variable = next((name for name in _PLACES if os.environ.get(name)), None)
    if variable is None:
        return ""
    place = Path(os.environ[variable])
    why = f"has no lib/{_LIBRARY}" if place.is_dir() else "is no directory"
    return f"; {variable} names {place}, which {why}"


@functools.cache
def calls(path: str) -> Calls:
    """Return the functions of a library, the same at every call."""
    return Calls(path)


def several_runtimes() -> str:
    """Name the runtimes of this process where there are several; else the empty text.

    They know nothing of each other's streams and memory.
    """
    found = _mapped()
    return " and ".join(found) if len(found) > 1 else ""


def checked(result: Any, what: str) -> Any:
    """Return what a call of the runtime gives beside its result code.

    Parameters
    ----------
    result
        The tuple that a function of `Calls` returns.
    what
        What it means when the call failed, for the message.

    Raises
    ------
    HipError
        The code is not success.
    """
    if result[0]:
        code = int(result[0])
        hip = calls(library()[0])
        raise explained(hip.error_name(code), what, text=hip.error_text(code))
    if len(result) <= 2:
        return result[1] if len(result) == 2 else None
    return result[1:]


def started() -> Calls:
    """Return the runtime's functions with the runtime initialised.

    Raises
    ------
    XpuLaunchException
        There is no runtime, no device, or this process cannot use it.
    """
    path, missing = library()
    if missing:
        raise explained("hipErrorNotInitialized", f"HIP's runtime is not here: {missing}")
    hip = calls(path)
    checked(hip.hipInit(0), "HIP cannot be used")
    return hip


def device_count() -> int:
    """Return how many devices the runtime shows."""
    return int(checked(started().hipGetDeviceCount(), "devices cannot be counted"))


def version_text(version: int) -> str:
    """Write a version of HIP's as its releases are called, for instance ``6.3.42131``."""
    return f"{version // 10**7}.{version // 10**5 % 100}.{version % 10**5}"


def _mapped() -> tuple[str, ...]:
    """Return the runtimes that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return ()
    paths = dict.fromkeys(fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6)
    return tuple(path for path in paths if Path(path).name.startswith(_LIBRARY))


def _of_sdk() -> Path | None:
    """Return the library of ROCm's own packages for Python."""
    if importlib.util.find_spec("rocm_sdk") is None:
        return None
    try:
        found = importlib.import_module("rocm_sdk").find_libraries("amdhip64")
    except Exception:
        # It is installed in part, for instance without what the device needs.
        return None
    return Path(found[0]) if found else None


def _has_bindings() -> bool:
    for name in BINDINGS:
        try:
            if importlib.util.find_spec(name) is not None:
                return True
        except (ImportError, ValueError):
            continue
    return False


def _fix() -> str:
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        shown = os.environ.get(name)
        if shown is not None:
            return f"{name} is {shown!r}: unset it, or name a device that there is"
    if not Path("/dev/kfd").exists():
        return (
            "load the kernel module amdgpu, and in a container pass /dev/kfd and /dev/dri through"
        )
    return "look at what rocminfo says; /dev/kfd may be used by the groups render and video"
