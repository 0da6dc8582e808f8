"""Problems of K-quant products, and which families serve one; benchmarks beside it import it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from typing import Final

from xpu import Problem
from xpu.settings import Settings

FORMATS: Final = ("q4k", "q6k")
SIZES: Final = ((4096, 4096), (14336, 4096), (4096, 14336))  # n, k
ROWS: Final = (1, 8, 16, 64, 512, 2048)
SERVES: Final = (("matvec", 1, 1), ("cols", 1, 16))
"""Kinds of family with few rows, and from which m to which one they are asked; then tiles are."""
SERVING: Final = "q*k_matvec at m = 1, q*k_cols up to 16, q*k_tile from {} on"

Point = tuple[int, int, int]
"""m, n, k."""


def families(
    settings: Settings,
    dialect: str,
    fmt: str,
    m: int,
    *,
    tiles_from: int = 16,
    library_from: int | None = None,
) -> list[str]:
    """Name the families of a format that serve m rows and have members in the dialect.

    Those that call a library are among them where it is said from which m on.
    """
    serves = [*SERVES, ("tile", tiles_from, 1 << 30)]
    if library_from is not None:
        serves.append(("library", library_from, 1 << 30))
    names = [f"{fmt}_{kind}" for kind, low, high in serves if low <= m <= high]
    return [
        name
        for name in names
        if name in settings.families and settings.family(name).for_dialect(dialect)
    ]


def points(sizes: Sequence[tuple[int, int]], rows: Sequence[int]) -> list[Point]:
    """Return every m of every n and k; the largest m first, so that pieces are alike."""
    return [(m, n, k) for m, (n, k) in product(sorted(rows, reverse=True), sizes)]


def problem_of(point: Point) -> Problem:
    """Return a point as a problem."""
    m, n, k = point
    return Problem(m=m, n=n, k=k)


def numbers(text: str) -> tuple[int, ...]:
    """Read ``1,8,16``; a type for argparse."""
    return tuple(int(part) for part in text.split(","))


def pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Read ``4096x4096,4096x14336`` as pairs of n and k; a type for argparse."""
    found = [tuple(int(size) for size in part.split("x")) for part in text.split(",")]
    if any(len(pair) != 2 for pair in found):
        raise argparse.ArgumentTypeError(f"{text!r}: pairs are N x K, for instance 4096x14336")
    return tuple((n, k) for n, k in found)


def piece(text: str) -> tuple[int, int]:
    """Read ``2/3``, the second of three pieces; a type for argparse."""
    part, _, of = text.partition("/")
    if not (part.isdigit() and of.isdigit() and 1 <= int(part) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r}: a piece is for instance 2/3")
    return int(part), int(of)
