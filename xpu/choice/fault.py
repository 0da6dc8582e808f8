"""Why one member is out of a trial: a probe raises it, the result tells it."""

from __future__ import annotations

from typing import Literal

from xpu.errors import XpuError, XpuPluginError

FaultStatus = Literal["wrong", "failed", "hung", "crashed"]


class MemberFault(XpuError):  # noqa: N818 - a member's fault, not the program's error
    """A member gave wrong numbers, could not be launched, did not end, or crashed.

    A probe may raise it from ``check`` or ``time_ns`` to say which; the trial goes on
    with the other members and this one becomes a value in the result.

    Parameters
    ----------
    status
        ``wrong``, ``failed``, ``hung`` or ``crashed``.
    note
        What is known of why.
    """

    def __init__(self, status: FaultStatus, note: str = "") -> None:
        super().__init__(status, note)
        self.status: FaultStatus = status
        self.note = note

    def __str__(self) -> str:
        return f"{self.status}: {self.note}" if self.note else self.status

    @classmethod
    def of(cls, error: Exception, otherwise: FaultStatus) -> MemberFault:
        """Return the error itself when it says its status, else one that quotes it."""
        if isinstance(error, cls):
            return error
        if isinstance(error, XpuPluginError):  # it says itself who failed, and nothing was judged
            return cls("failed", str(error))
        # A message may run over many lines; a note is part of one line.
        text = " ".join(str(error).split())
        name = type(error).__name__
        return cls(otherwise, f"{name}: {text}" if text else name)
