"""The runtime's errors by name: what failed, and what state that leaves.

Most errors change nothing. Some are sticky: the device's context is lost, every later call in the
process gives the same error, and only a new process helps. A kernel that touches memory that is not
there mostly ends the process before anybody is told: the runtime aborts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xpu.errors import XpuLaunchException

# Source: hip_runtime_api.h (HIP 7.2), hipError_t; the same states as the errors of these numbers
# have in CUDA, of which it says that the process must be ended.
_STICKY: Final = frozenset(
    {
        "hipErrorECCNotCorrectable",
        "hipErrorIllegalAddress",
        "hipErrorLaunchTimeOut",
        "hipErrorContextIsDestroyed",
        "hipErrorAssert",
        "hipErrorLaunchFailure",
    }
)
_SENT_AWAY: Final = "the code is for another part; build it for this device"
_CAPTURE: Final = "a stream is being captured; do this before the capture begins, or after it"
_ADVICE: Final[Mapping[str, str]] = {
    "hipErrorOutOfMemory": "free memory of the device, or choose a smaller problem",
    "hipErrorNotInitialized": (
        "a process forked from one that used HIP cannot use it; start processes by spawn"
    ),
    "hipErrorNoDevice": "look at HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES, and at rocminfo",
    "hipErrorInvalidDevice": "xpu device shows which there are",
    "hipErrorInvalidImage": "remove the file and build it again",
    "hipErrorInvalidKernelFile": "remove the file and build it again",
    "hipErrorNotFound": "the code does not define it; remove the file and build it again",
    "hipErrorNoBinaryForGpu": _SENT_AWAY,
    "hipErrorSharedObjectInitFailed": _SENT_AWAY,
    "hipErrorLaunchOutOfResources": "the block needs more registers than there are",
    "hipErrorInvalidHandle": "a stream or kernel of another device, or one that is gone",
    "hipErrorInvalidResourceHandle": "a stream or kernel of another device, or one that is gone",
    "hipErrorStreamCaptureUnsupported": _CAPTURE,
    "hipErrorStreamCaptureInvalidated": _CAPTURE,
    "hipErrorStreamCaptureImplicit": _CAPTURE,
}


class HipError(XpuLaunchException):
    """A call of the runtime failed.

    Attributes
    ----------
    name
        The runtime's name for it, for instance ``hipErrorIllegalAddress``.
    is_sticky
        Whether the context is lost: nothing works in this process any more.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name
        self.is_sticky = name in _STICKY

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.name)


def explained(name: str, what: str, *, text: str = "") -> HipError:
    """Return the error for a failed call.

    Parameters
    ----------
    name
        The runtime's name of the result.
    what
        What was asked, for instance ``kernel 'q4k' cannot be launched``.
    text
        The runtime's own words for it.
    """
    if name in _STICKY:
        state = (
            "an earlier launch may have caused it; the context is lost: end this process, "
            "nothing on the device works in it any more"
        )
    else:
        advice = _ADVICE.get(name, "")
        state = f"nothing was launched{f'; {advice}' if advice else ''}"
    told = f"{name} ({text})" if text and text != name else name
    return HipError(f"{what}: {told}; {state}", name)
