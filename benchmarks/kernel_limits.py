"""What the kernels of ``gpu_kernels.py`` are held to, and the findings on it. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

BYTES_PER_S: Final = 4.3e12
"""What an H200's memory gives, where no calibration says better."""
COLD_US: Final[Mapping[tuple[str, int], float]] = {
    ("q4k", 1): 13.0,
    ("q6k", 1): 17.0,
    ("q4k", 8): 24.0,
    ("q6k", 8): 30.0,
    ("q4k", 512): 180.0,
    ("q6k", 512): 190.0,
}
"""Microseconds, cold, of the best that serves m rows, n x k = 4096 x 14336."""
TILE_COLD_US: Final[Mapping[tuple[str, int], float]] = {("q4k", 512): 362.0, ("q6k", 512): 438.0}
"""The same of the tile families alone."""
PEER_US: Final[Mapping[tuple[str, int], float]] = {
    ("q4k", 1): 15.7,
    ("q4k", 4): 27.4,
    ("q4k", 8): 47.1,
    ("q4k", 512): 362.0,
    ("q5k", 1): 18.7,
    ("q5k", 4): 30.0,
    ("q5k", 8): 48.8,
    ("q5k", 512): 369.0,
    ("q6k", 1): 23.9,
    ("q6k", 4): 39.5,
    ("q6k", 8): 57.8,
    ("q6k", 512): 438.0,
}
"""llama.cpp's own perf test (ggml 0.25.3, CUDA, H200, driver 580): one buffer reused, so warm."""
PLACE: Final = (4096, 14336)
"""n and k of all these figures."""
ROWS: Final = range(1, 17)
SLOWER: Final = 1.03
"""No row count may be slower than the next higher one by more than this."""

Row = Mapping[str, Any]
"""``format``, ``m``, ``memory``, ``family``, ``us`` and more: the best member of a family."""


def best(rows: Sequence[Row]) -> dict[tuple[str, int, str], Row]:
    """Return the fastest row of each format, m and memory."""
    found: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        key = (row["format"], row["m"], row["memory"])
        if row["us"] is not None and (key not in found or row["us"] < found[key]["us"]):
            found[key] = row
    return found


def limit_us(fmt: str, m: int, memory: str) -> float | None:
    """Return the limit of the best at a point; None where there is none."""
    return COLD_US.get((fmt, m)) if memory == "cold" else PEER_US.get((fmt, m))


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Say what of the limits holds, and where not."""
    fastest = best(rows)
    cold = [
        (f"{fmt} m={m}", fastest[fmt, m, "cold"]["us"], limit)
        for (fmt, m), limit in COLD_US.items()
        if (fmt, m, "cold") in fastest
    ]
    warm = [
        (f"{fmt} m={m}", fastest[fmt, m, "warm"]["us"], limit)
        for (fmt, m), limit in PEER_US.items()
        if (fmt, m, "warm") in fastest
    ]
    tiles = best([row for row in rows if row["family"].endswith("_tile")])
    alone = [
        (f"{fmt} m={m}", tiles[fmt, m, "cold"]["us"], limit)
        for (fmt, m), limit in TILE_COLD_US.items()
        if (fmt, m, "cold") in tiles
    ]
    return [
        *_held("cold, the best", cold),
        *_held("cold, qgemm_tile alone", alone),
        *_held("warm, beside llama.cpp's", warm),
        *_rows_verdict(fastest),
    ]


def _held(what: str, points: Sequence[tuple[str, float, float]]) -> list[str]:
    if not points:
        return []
    broken = [f"{name} {us:.1f} > {limit:g} µs" for name, us, limit in points if us > limit]
    said = f"NOT met: {', '.join(broken)}" if broken else "met"
    return [f"{what}: {len(points) - len(broken)} of {len(points)} limits hold: {said}"]


def inversions(times_us: Mapping[int, float], slower: float = SLOWER) -> list[tuple[int, float]]:
    """Return row counts that take longer than the next higher one, and how many times as long."""
    counts = sorted(times_us)
    pairs = [(low, high) for low, high in pairwise(counts) if high == low + 1]
    ratios = [(low, times_us[low] / times_us[high]) for low, high in pairs]
    return [(low, ratio) for low, ratio in ratios if ratio > slower]


def _rows_verdict(fastest: Mapping[tuple[str, int, str], Row]) -> list[str]:
    notes = []
    for fmt, memory in dict.fromkeys((fmt, memory) for fmt, _, memory in fastest):
        times = {
            m: float(fastest[fmt, m, memory]["us"]) for m in ROWS if (fmt, m, memory) in fastest
        }
        if len(times) == len(ROWS):
            found = inversions(times)
            said = ", ".join(
                f"m={m} is {ratio - 1:.1%} slower than m={m + 1}" for m, ratio in found
            )
            notes.append(
                f"rows 1 to {ROWS[-1]}, {fmt} {memory} (wanted: none slower than the next by more "
                f"than {SLOWER - 1:.0%}): {'NOT met: ' + said if found else 'met'}"
            )
    return notes
