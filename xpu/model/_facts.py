"""Conversions that the fact classes share. Absent is `None`, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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


def frozen_mapping(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Copy a mapping into one that cannot change; None makes an empty one."""
    return MappingProxyType(dict(value or {}))
