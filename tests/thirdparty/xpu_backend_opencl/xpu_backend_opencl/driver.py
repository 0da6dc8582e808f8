"""Which OpenCL devices this machine has; the one place that imports ``pyopencl`` first.

A backend's compiler names one native target, so the devices of one kind are served: those of
the first device's platform that bear its name.
"""

from __future__ import annotations

import functools
import shutil
from typing import TYPE_CHECKING, Final

from xpu.errors import XpuLaunchException
from xpu.spec import Availability

if TYPE_CHECKING:
    import pyopencl as cl

_FIX: Final = "pip install pyopencl pocl-binary-distribution, or install your device's driver"


def availability() -> Availability:
    """Say whether a device can be used here, and what is missing."""
    try:
        import pyopencl as cl
    except ImportError as error:
        return Availability(False, f"pyopencl cannot be imported: {error}", _FIX)
    try:
        found = _devices()
    except cl.Error as error:
        return Availability(False, f"no OpenCL platform answers: {error}", _FIX)
    if not found:
        return Availability(False, "no OpenCL device with a compiler was found", _FIX)
    if is_pocl(found[0]) and shutil.which("ld") is None:
        # It would end the process at the first launch.
        return Availability(False, "PoCL finds no linker 'ld' on PATH", "apt-get install binutils")
    return Availability(True)


def devices() -> tuple[cl.Device, ...]:
    """Return the devices that are served.

    Raises
    ------
    XpuLaunchException
        There is none; the message says what to install.
    """
    state = availability()
    if not state.is_available:
        raise XpuLaunchException(f"backend 'opencl': {state.reason}; {state.fix}")
    return _devices()


def is_pocl(device: cl.Device) -> bool:
    """Whether a device is the processor as PoCL offers it."""
    return "Portable Computing Language" in device.platform.name


@functools.cache
def _devices() -> tuple[cl.Device, ...]:
    import pyopencl as cl

    usable = [
        device
        for platform in cl.get_platforms()
        for device in platform.get_devices()
        if device.available and device.compiler_available and device.endian_little
    ]
    kinds = [(device.platform.name, device.name) for device in usable]
    return tuple(device for device, kind in zip(usable, kinds, strict=True) if kind == kinds[0])
