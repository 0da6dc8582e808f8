"""Which arm of a trial wins, told from the readings alone.

Arms are compared within rounds, never across them, so that a clock that drifts or changes
midway favours none. Pure functions: the same readings give the same winner everywhere.
The trial calls `decide` at each look; nothing here runs or times anything.

An arm is a number, its place in declared order. A round holds one reading for each arm, in
nanoseconds a launch: None when the arm was not read in it. A reading that is 0, below 0,
infinite or not a number is bad: it says nothing.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Collection, Sequence
from typing import Final, TypeGuard

import attrs

Reading = float | None
Round = Sequence[Reading]

LOOKS: Final = (14, 24, 40, 64)
"""Rounds after which arms are compared. Fourteen is the fewest that can prove an order:
fourteen of fourteen has p = 6.1e-5. Source: design, "Decision"."""

CERTAINTY: Final = 1e-4
"""Largest p of the one-sided sign test that proves an order at a look. Four looks bound a
false order between two arms by 4e-4. Source: design, "Decision"."""

SLOWER: Final = 1.003
"""An arm was slower in a round when its reading is more than this many times the other's:
less is not worth an order, and equal arms then stay well under half of their rounds."""

TIE_PERMILLE: Final = 30
"""A margin under this is labelled a tie. Source: seeds, "Among survivors": three percent."""

_GOOD_SHARE: Final = 4
"""An arm must read well in one round of so many to win. Against one with fewer good
readings, not even 64 rounds could prove anything, so it would win by being unreadable."""


@attrs.frozen
class Decision:
    """The winning arm, its margin in parts per thousand, and whether that is a tie.

    `is_open`: more rounds may yet prove the winner behind another arm.
    """

    winner: int
    margin_permille: int | None
    is_tie: bool | None
    is_open: bool


def is_good(reading: Reading) -> TypeGuard[float]:
    """Whether a reading is a time: above 0 and finite."""
    return reading is not None and 0 < reading < math.inf


@functools.lru_cache(maxsize=256)
def rounds_needed(paired: int) -> int:
    """Return the fewest slower rounds, of so many paired, that prove an arm behind.

    One more than `paired` when nothing can: then no count reaches it.

    Source: the upper tail of the binomial distribution with one half, at `CERTAINTY`.
    """
    tail = 0
    for slower in range(paired, -1, -1):
        tail += math.comb(paired, slower)
        if tail > CERTAINTY * 2**paired:
            return slower + 1
    return paired + 1


def slower_rounds(rounds: Sequence[Round], arm: int, other: int) -> tuple[int, int]:
    """Count the rounds in which an arm was slower than another, and those both read well."""
    slower = paired = 0
    for row in rounds:
        mine, its = row[arm], row[other]
        if is_good(mine) and is_good(its):
            paired += 1
            slower += mine / its > SLOWER
    return slower, paired


def is_behind(rounds: Sequence[Round], arm: int, other: int) -> bool:
    """Whether the sign test proves an arm slower than another."""
    slower, paired = slower_rounds(rounds, arm, other)
    return slower >= rounds_needed(paired)


def decide(
    rounds: Sequence[Round],
    arms: Sequence[int],
    *,
    left: Collection[int] = (),
    preferred: int | None = None,
) -> Decision | None:
    """Return the decision after some rounds.

    The winner is the preferred arm if it is behind none, else the first declared one that
    is behind none. Only arms that stayed are compared: one that left is behind, and
    nobody is behind it. Should every arm be behind some other (orders that go in a circle,
    as clocks that change can feign), the one with the lowest paired median wins.

    Parameters
    ----------
    rounds
        The readings, round by round.
    arms
        The arms that may serve, in declared order. What others read is passed over.
    left
        Those of them that left the trial.
    preferred
        The arm that wins while nothing is proven against it: the default.

    Returns
    -------
    Decision or None
        None when no arm has a good reading.
    """
    able = [arm for arm in arms if arm not in left and _good_rounds(rounds, arm)]
    if not able:
        return None
    pool = [arm for arm in able if _reads_well(rounds, arm)] or able
    free = [
        arm
        for arm in pool
        if not any(is_behind(rounds, arm, other) for other in pool if other != arm)
    ]
    if not free:
        winner = min(pool, key=lambda arm: _paired_median(rounds, arms, arm, arm))
    else:
        winner = preferred if preferred in free and preferred is not None else free[0]
    margin = margin_permille(rounds, arms, winner)
    return Decision(
        winner,
        margin,
        None if margin is None else margin < TIE_PERMILLE,
        any(_leans_behind(rounds, winner, other) for other in able if other != winner),
    )


def margin_permille(rounds: Sequence[Round], arms: Sequence[int], winner: int) -> int | None:
    """Return by how much the winner leads the nearest other arm, in parts per thousand.

    (runner-up - winner) / runner-up, from the paired medians over the rounds that both
    read well, rounded to the nearest, at least 0. The runner-up is the arm with the
    smallest such lead, one that left included. None with no other arm, or with no round
    that the winner shares with one.
    """
    leads = [
        _paired_median(rounds, arms, other, winner) - _paired_median(rounds, arms, winner, other)
        for other in arms
        if other != winner and slower_rounds(rounds, winner, other)[1]
    ]
    if not leads:
        return None
    return math.floor(1000 * -math.expm1(-max(0.0, min(leads))) + 0.5)


def _paired_median(rounds: Sequence[Round], arms: Sequence[int], arm: int, beside: int) -> float:
    """Median log ratio of an arm to its round's best, over the rounds `beside` read well."""
    ratios = []
    for row in rounds:
        mine = row[arm]
        if is_good(mine) and is_good(row[beside]):
            best = min(reading for other in arms if is_good(reading := row[other]))
            # Not the logarithm of the quotient: that may pass what a float holds.
            ratios.append(math.log(mine) - math.log(best))
    return statistics.median(ratios)


def _leans_behind(rounds: Sequence[Round], arm: int, other: int) -> bool:
    """Whether an arm was slower in more than half of the paired rounds.

    Below that the trend itself proves nothing, however long it goes on: looking no
    further then can only miss an order, never make a false one.
    """
    slower, paired = slower_rounds(rounds, arm, other)
    return 2 * slower > paired


def _good_rounds(rounds: Sequence[Round], arm: int) -> int:
    return sum(is_good(row[arm]) for row in rounds)


def _reads_well(rounds: Sequence[Round], arm: int) -> bool:
    read = sum(row[arm] is not None for row in rounds)
    return _GOOD_SHARE * _good_rounds(rounds, arm) >= read
