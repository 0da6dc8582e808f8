"""Values of host code that was read and not run: known, unknown, or one of several.

A known value is the Python object itself. Called by the folding of launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

import attrs

_MOST: Final = 32
"""Alternatives that are told apart; more of them are unknown."""


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""What depends on the problem, or on code that is not read."""


@attrs.frozen
class Several:
    """One of these, depending on what is unknown."""

    values: tuple[Any, ...]


@attrs.frozen(eq=False)
class Parameters:
    """A member's parameters: all known, but for those that rules may record at a bind.

    `is_copy` when code made a dictionary of its own of them.
    """

    known: Mapping[str, Any]
    recorded: frozenset[str] = frozenset()
    is_copy: bool = False

    def item(self, key: Any, otherwise: Any = UNKNOWN) -> Any:
        """Return a parameter; `otherwise` where the member has none of that name."""
        if key in self.known:
            return self.known[key]
        return UNKNOWN if key in self.recorded else otherwise

    def has(self, key: Any) -> Any:
        """Whether there is a parameter of a name."""
        return UNKNOWN if key in self.recorded and key not in self.known else key in self.known

    def over(self, upper: Mapping[Any, Any]) -> Parameters:
        """Return these with others put over them."""
        return Parameters({**self.known, **upper}, self.recorded, is_copy=True)


@attrs.frozen
class LaunchValue:
    """A launch that host code makes: its block, as far as it is known, and where it stands."""

    block: Any
    where: str


def alternatives(value: Any) -> Iterator[Any]:
    """Yield what a value may be."""
    if isinstance(value, Several):
        yield from value.values
    else:
        yield value


def joined(values: Iterable[Any]) -> Any:
    """Return the value that is one of these."""
    found: list[Any] = []
    for value in values:
        for each in alternatives(value):
            if not any(_same(each, other) for other in found):
                found.append(each)
    if not found or len(found) > _MOST:
        return UNKNOWN
    return found[0] if len(found) == 1 else Several(tuple(found))


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        # 1 and True are equal, and not the same.
        return type(one) is type(other) and bool(one == other)
    except Exception:  # a plugin's own class may compare as it likes
        return False


def is_known(value: Any) -> bool:
    """Whether nothing of a value is unknown."""
    if value is UNKNOWN or isinstance(value, Several | Parameters | LaunchValue):
        return False
    if isinstance(value, tuple | list):
        return all(map(is_known, value))
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return True


def applied(function: Callable[..., Any], *operands: Any) -> Any:
    """Return a function's value for all that its operands may be; unknown where it raises."""
    cases = list(product(*(list(alternatives(each)) for each in operands)))
    if len(cases) > _MOST:
        return UNKNOWN
    return joined(_one(function, case) for case in cases)


def _one(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    if not all(map(is_known, operands)):
        return UNKNOWN
    try:
        return function(*operands)
    except Exception:  # what the code would raise is no launch
        return UNKNOWN
