"""Names of AMD's targets, and what a name says of the part."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"gfx(?:(\d+)[0-9a-f]{2}|(\d+)(?:-\d+)?-generic)")
_FEATURES: Final = re.compile(r"(?::(?:sramecc|xnack)[+-])*")
"""What may follow a processor in a target ID. Source: LLVM, User Guide for AMDGPU Backend."""
_LEAST: Final = 9
"""The first generation with all that the prelude uses, packed arithmetic of halves among it."""
_FIRST_NARROW: Final = 10
"""The first generation for which the compiler makes waves of 32 lanes and not of 64."""


def generation(target: str) -> int | None:
    """Return the number of a target's generation, 11 for ``gfx1151``; None for no such name."""
    processor, colon, features = target.partition(":")
    match = _NAME.fullmatch(processor)
    if match is None or not _FEATURES.fullmatch(colon + features):
        return None
    return int(match[1] or match[2])


def is_served(processor: str) -> bool:
    """Say whether the prelude has what it takes for a processor."""
    number = generation(processor)
    return number is not None and number >= _LEAST


def is_generic(target: str) -> bool:
    """Say whether a target stands for several parts."""
    return target.partition(":")[0].endswith("-generic")


def wave_width(target: str) -> int:
    """Return the lanes of a wave; the target is one that `is_served`."""
    return 64 if (generation(target) or 0) < _FIRST_NARROW else 32
