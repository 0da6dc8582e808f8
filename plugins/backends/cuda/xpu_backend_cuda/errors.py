"""The driver's errors by name: what failed, and what state that leaves.

Most errors change nothing. Some are sticky: the context is lost, every later call in the
process gives the same error, and only a new process helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xpu.errors import XpuLaunchException

# Source: cuda.h (CUDA 13.0), which says of these that the process must be terminated and
# relaunched, or that the context cannot be used any more.
_STICKY: Final = frozenset(
    {
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_CONTAINED",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_TENSOR_MEMORY_LEAK",
        "CUDA_ERROR_MPS_CLIENT_TERMINATED",
        "CUDA_ERROR_EXTERNAL_DEVICE",
    }
)
_SENT_AWAY: Final = "the code is for another architecture; build it for this device"
_CAPTURE: Final = "a stream is being captured; do this before the capture begins, or after it"
_ADVICE: Final[Mapping[str, str]] = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free memory of the device, or choose a smaller problem",
    "CUDA_ERROR_NOT_INITIALIZED": (
        "a process forked from one that used CUDA cannot use it; start processes by spawn"
    ),
    "CUDA_ERROR_NO_DEVICE": "look at CUDA_VISIBLE_DEVICES, and at what nvidia-smi shows",
    "CUDA_ERROR_INVALID_DEVICE": "xpu device shows which there are",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "another process holds the device for itself",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "load the driver's new kernel module, or reboot",
    "CUDA_ERROR_INVALID_IMAGE": "remove the file and build it again",
    "CUDA_ERROR_INVALID_PTX": "remove the file and build it again",
    "CUDA_ERROR_NOT_FOUND": "the code does not define it; remove the file and build it again",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": _SENT_AWAY,
    "CUDA_ERROR_INVALID_SOURCE": _SENT_AWAY,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "update the driver",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the block needs more registers than there are",
    "CUDA_ERROR_INVALID_HANDLE": "a stream or kernel of another context, or one that is gone",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": _CAPTURE,
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": _CAPTURE,
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": _CAPTURE,
}


class CudaError(XpuLaunchException):
    """A call of the driver failed.

    Attributes
    ----------
    name
        The driver's name for it, for instance ``CUDA_ERROR_ILLEGAL_ADDRESS``.
    is_sticky
        Whether the context is lost: nothing works in this process any more.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name
        self.is_sticky = name in _STICKY

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.name)


def error_name(code: Any) -> str:
    """Return the driver's name of a result code."""
    return str(getattr(code, "name", f"CUDA_ERROR_{code}"))


def is_sticky(code: Any) -> bool:
    """Whether a result code means that the context is lost."""
    return error_name(code) in _STICKY


def explained(code: Any, what: str, *, text: str = "") -> CudaError:
    """Return the error for a result code.

    Parameters
    ----------
    code
        The driver's result.
    what
        What was asked, for instance ``kernel 'q4k' cannot be launched``.
    text
        The driver's own words for the code.
    """
    name = error_name(code)
    if name in _STICKY:
        state = (
            "an earlier launch may have caused it; the context is lost: end this process, "
            "nothing on the device works in it any more"
        )
    else:
        advice = _ADVICE.get(name, "")
        state = f"nothing was launched{f'; {advice}' if advice else ''}"
    told = f"{name} ({text})" if text else name
    return CudaError(f"{what}: {told}; {state}", name)
