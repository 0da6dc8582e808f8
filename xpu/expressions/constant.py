"""Constant expressions: what declarations say, evaluated for one member.

What is not constant is refused by name; it is never read as zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from xpu.errors import XpuConfigError
from xpu.expressions.expression import Expression
from xpu.expressions.names import Names
from xpu.model import Value

_NOTHING: Final[frozenset[str]] = frozenset()


def constant_expression(value: Value, parameters: Collection[str]) -> Expression:
    """Read what is declared; `parameters` are those that a member may set.

    Raises
    ------
    XpuConfigError
        It is no expression, or reads what is known at a bind only.
    """
    names = Names(device=_NOTHING, kernel=_NOTHING, member=parameters, problem=_NOTHING)
    try:
        return Expression(value, names)
    except XpuConfigError as error:
        raise XpuConfigError(f"{value!r} is not constant: {error}") from None


def constant(value: Value, parameters: Mapping[str, int]) -> int:
    """Return a declared value for a member's parameters, 1 or more.

    Raises
    ------
    XpuConfigError
        The value reads what is known at a bind only, or what the member does not set, or is
        no whole number of 1 or more.
    """
    expression = constant_expression(value, parameters)
    found = expression.evaluate({f"member.{name}": it for name, it in parameters.items()})
    if found is None:
        raise XpuConfigError(
            f"{value!r} is not constant: it is absent; allowed: numbers and what the "
            f"member sets ({', '.join(f'member.{name}' for name in parameters) or 'nothing'})"
        )
    if isinstance(found, bool) or found != int(found) or found < 1:
        raise XpuConfigError(f"{value!r} is {found}; allowed: a whole number of 1 or more")
    return int(found)
