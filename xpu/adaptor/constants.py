"""Constant expressions of declarations, evaluated for a member.

What is not constant is refused by name; it is never read as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xpu.errors import XpuBuildError, XpuConfigError
from xpu.expressions import Expression, Names
from xpu.model import Value

_NOTHING: Final[frozenset[str]] = frozenset()


def constant(value: Value, parameters: Mapping[str, int], what: str) -> int:
    """Return a declared value for a member's parameters, 1 or more.

    Parameters
    ----------
    what
        What is declared, and for which kernel; it begins the message.

    Raises
    ------
    XpuBuildError
        The value reads what is known at a bind only, or what the member does not set, or is
        no whole number of 1 or more.
    """
    names = Names(device=_NOTHING, kernel=_NOTHING, member=parameters, problem=_NOTHING)
    try:
        found = Expression(value, names).evaluate(
            {f"member.{name}": number for name, number in parameters.items()}
        )
    except XpuConfigError as error:
        raise XpuBuildError(f"{what}: {value!r} is not constant: {error}") from None
    if found is None:
        raise XpuBuildError(
            f"{what}: {value!r} is not constant: it is absent; allowed: numbers and what the "
            f"member sets ({', '.join(f'member.{name}' for name in parameters) or 'nothing'})"
        )
    if isinstance(found, bool) or found != int(found) or found < 1:
        raise XpuBuildError(f"{what}: {value!r} is {found}; allowed: a whole number of 1 or more")
    return int(found)
