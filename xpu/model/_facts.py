"""Conversions that the fact classes share. Absent is `None`, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from xpu.errors import XpuConfigError


def count_or_absent(value: object) -> int | None:
    """Turn a driver's figure into a count: a 0 or a negative one is impossible, hence absent."""
    number = whole_or_absent(value)
    return number if number else None


def whole_or_absent(value: object) -> int | None:
    """Turn a figure into a whole number; 0 is kept, a negative one is absent."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise XpuConfigError(f"a fact is a whole number or absent (None), not {value!r}")
    number = int(value.__index__())
    return number if number >= 0 else None


class _Frozen(dict[str, Any]):
    """A dictionary that cannot change, and can be hashed, copied and pickled.

    A dictionary, for reading one is part of what a filter does a thousand times.
    """

    def __hash__(self) -> int:  # type: ignore[override]  # dict has none
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[object, tuple[dict[str, Any]]]:
        return frozen_mapping, (dict(self),)

    def _refuse(self, *_given: object, **_named: object) -> NoReturn:
        raise TypeError("this mapping cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def frozen_mapping(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Copy a mapping into one that cannot change; None makes an empty one."""
    return _Frozen(value or {})
