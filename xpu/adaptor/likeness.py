"""What stands for a value in a memo: equal for values of which host code cannot tell one apart.

What is not known to be so stands for itself alone. Called by the folding of launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final

from xpu.folding import Parameters
from xpu.model import frozen_mapping
from xpu.spec import Argument

_FIXED: Final = (int, str, bool, bytes, NoneType, Argument)
_MAPPINGS: Final = (dict, MappingProxyType, type(frozen_mapping(None)))
_HEAP_TYPE: Final = 1 << 9
"""Flag of a class that Python code defines. Source: CPython's ``Include/object.h``."""


class _Itself:
    """Stands for one object, which it keeps from becoming another of the same number."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def likeness(value: object) -> Any:
    """Return what stands for a value as it is now; it can be hashed."""
    kind = type(value)
    if kind in _FIXED:
        return kind, value  # 1 and True are equal, and not the same
    if isinstance(value, Parameters):
        return kind, likeness(value.known), value.recorded
    if kind is tuple or kind is list:
        parts: Any = value  # mypy does not narrow by `kind`
        return kind, *map(likeness, parts)
    if isinstance(value, Mapping) and kind in _MAPPINGS:
        return kind, *((likeness(key), likeness(each)) for key, each in value.items())
    return _Itself(value)


def likeness_of_owner(owner: object) -> Any:
    """Return what stands for a plugin's object: one of the same class and attributes is alike.

    Families have a design each that differs in constants alone, or in nothing.
    """
    cls = type(owner)
    is_plain = all(
        base is object or (base.__flags__ & _HEAP_TYPE and not vars(base).get("__slots__"))
        for base in cls.__mro__
    )
    if not is_plain:
        return _Itself(owner)
    try:
        return cls, likeness(vars(owner))
    except RecursionError:  # an attribute that holds itself has no end
        return _Itself(owner)
