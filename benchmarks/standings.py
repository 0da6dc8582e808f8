"""What an oracle says of the members of a choice, and what it thinks of the choices made.

Pure functions of readings and of winners' names: nothing here runs or times anything. The
benchmarks beside it import it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np
from turns import Times

APART: Final = 0.01
"""Members that an oracle separates by more than this are not to be confused: a flip."""
NEAR: Final = 0.03
"""Members so near the best are the ones whose noise counts."""
LEAST_READINGS: Final = 5
_DEVIATION: Final = 1.4826  # standard deviations of a median absolute deviation, if it were normal
_OF_MEDIAN: Final = 1.2533  # standard errors of a median, in those of a mean

Oracle = Mapping[str, Sequence[float]]
"""By member: log of its time over a common one, that logarithm's standard error, microseconds."""


@attrs.frozen
class Standing:
    """A member in the oracle's eyes.

    `excess` is its time over that of the best member, less 1; `noise` what that may be off by;
    `us` its median in microseconds.
    """

    excess: float
    noise: float
    us: float


def oracle_of(names: Sequence[str], times_us: Times) -> dict[str, list[float]]:
    """Return what interleaved rounds (rounds, members) say; NaN is a reading that was not had.

    Members are compared within rounds, with the one of the least median. One with too few
    readings is left out.
    """
    good = np.isfinite(times_us).sum(axis=0) >= LEAST_READINGS
    able, times = [name for name, is_good in zip(names, good, strict=True) if is_good], times_us
    if not able:
        return {}
    times = times[:, good]
    beside = times[:, [int(np.argmin(np.nanmedian(times, axis=0)))]]
    logs = np.log(times) - np.log(beside)
    middle = np.nanmedian(logs, axis=0)
    spread = _DEVIATION * np.nanmedian(np.abs(logs - middle), axis=0)
    errors = _OF_MEDIAN * spread / np.sqrt(np.isfinite(logs).sum(axis=0))
    columns = zip(middle, errors, np.nanmedian(times, axis=0), strict=True)
    return {name: [float(x) for x in column] for name, column in zip(able, columns, strict=True)}


def pooled(oracles: Sequence[Oracle]) -> dict[str, Standing]:
    """Return the standings over several oracles, each of a process of its own.

    The noise is the greater one of what rounds scatter by and of half of what separates the
    oracles: processes differ by more than their rounds do.
    """
    found: dict[str, list[Sequence[float]]] = {}
    for oracle in oracles:
        least = min((log for log, *_ in oracle.values()), default=0.0)
        for name, (log, error, us) in oracle.items():
            found.setdefault(name, []).append((log - least, error, us))
    if not found:
        return {}
    means = {name: float(np.mean([log for log, *_ in each])) for name, each in found.items()}
    best = min(means, key=lambda name: means[name])
    return {name: _standing(each, means[best]) for name, each in found.items()}


def _standing(each: Sequence[Sequence[float]], least: float) -> Standing:
    logs, errors, us = (np.array(column) for column in zip(*each, strict=True))
    within = math.sqrt(float(np.mean(errors**2)) / len(each))
    return Standing(
        math.expm1(float(np.mean(logs)) - least),
        max(within, float(np.ptp(logs)) / 2),
        float(np.median(us)),
    )


def best_of(standings: Mapping[str, Standing]) -> str:
    """Name the member with the least time."""
    return min(standings, key=lambda name: standings[name].excess)


def noise_of(standings: Mapping[str, Standing]) -> float:
    """Return the largest noise of the members near the best."""
    return max(each.noise for each in standings.values() if each.excess <= NEAR)


def regret(standings: Mapping[str, Standing], winner: str | None) -> float:
    """Return what a choice costs: the winner's time over the best's, less 1.

    Infinite where nothing was chosen, or something that the oracle could not read.
    """
    found = None if winner is None else standings.get(winner)
    return math.inf if found is None else found.excess


def flips(
    standings: Mapping[str, Standing], winners: Sequence[str | None], apart: float = APART
) -> list[tuple[str, str]]:
    """Name the pairs of members that both won although the oracle tells them apart."""
    known = sorted({name for name in winners if name is not None and name in standings})
    ratios = {name: 1 + standings[name].excess for name in known}
    return [
        (one, other)
        for one, other in itertools.combinations(known, 2)
        if max(ratios[one], ratios[other]) / min(ratios[one], ratios[other]) > 1 + apart
    ]


def tally(winners: Sequence[str | None]) -> str:
    """Say who won how often, the most frequent first."""
    counts = Counter(name or "nobody" for name in winners)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
