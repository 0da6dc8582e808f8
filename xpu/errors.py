"""The errors that XPU raises, all of them derived from `XpuError`.

Every message says what failed, where, what was allowed and what to type next.
Anything that is expected to fail now and then (a pruned candidate, a member that
does not compile) is a value, not one of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class XpuError(Exception):
    """Base of all errors that XPU raises on purpose."""


class XpuConfigError(XpuError):
    """Configuration, an expression, an argument or a name is not acceptable."""


class XpuPluginError(XpuError):
    """A plugin failed where its absence cannot be passed over."""


class XpuBuildError(XpuError):
    """A kernel could not be compiled, or its build would not be true to its declarations."""


class XpuDeadlineError(XpuBuildError):
    """A compiler passed its deadline and was ended."""


class XpuLaunchException(XpuError):  # noqa: N818 - a fixed public name
    """No candidate can be launched, or a launch failed.

    Attributes
    ----------
    members
        Where none of a family can serve, what became of each: `xpu.model.MemberResult`. Else
        empty.
    """

    def __init__(self, *message: object, members: Iterable[Any] = ()) -> None:
        super().__init__(*message)
        self.members: tuple[Any, ...] = tuple(members)
