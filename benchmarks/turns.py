"""Contestants that take turns in one process, and what their times say about each other.

A clock that drifts and neighbours that come and go meet all contestants alike when each round
visits every one of them; so figures are compared within rounds only. The benchmarks beside it
import it; it knows nothing of kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

WAKE_NS = 1_000_000  # untimed calls before a turn's timed ones: sleeping threads wake up
TURN_NS = 2_000_000  # timed calls of a turn, as many as fit ...
MOST_CALLS = 50  # ... up to so many, at least one
LEAST_ROUNDS = 11


def nothing() -> None:
    """Settle where nothing needs to settle."""


@attrs.define(eq=False)
class Arm:
    """A contestant.

    Attributes
    ----------
    name
        For tables.
    calls
        Do the same work; one for warm memory, one for each copy of the data for cold. They are
        visited in turn, so that a copy comes back after all others.
    settle
        Called before each turn: waits until the other contestants' idle threads sleep.
    """

    name: str
    calls: Sequence[Callable[[], object]]
    settle: Callable[[], object] = nothing
    _visits: int = 0

    def visit_ns(self) -> int:
        """Make the next call and return its wall time in nanoseconds."""
        call = self.calls[self._visits % len(self.calls)]
        self._visits += 1
        started = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - started

    def turn_us(self) -> float:
        """Settle, wake up untimed, and return the median microseconds of the timed calls."""
        self.settle()
        spent = 0
        while spent < WAKE_NS:
            spent += self.visit_ns()
        readings = [self.visit_ns()]
        while sum(readings) < TURN_NS and len(readings) < MOST_CALLS:
            readings.append(self.visit_ns())
        return float(np.median(readings)) / 1e3


def play(arms: Sequence[Arm], seconds: float, least: int = LEAST_ROUNDS) -> Times:
    """Return microseconds (rounds, arms) of rounds that visit every arm once."""
    return interleaved([arm.turn_us for arm in arms], seconds, least)


def interleaved(
    read: Sequence[Callable[[], float]], seconds: float, least: int = LEAST_ROUNDS
) -> Times:
    """Return readings (rounds, readers) of rounds that ask every reader once.

    The first one of a round rotates and odd rounds run backwards, so that none always
    follows the same other one. A first round is dropped.
    """
    rows: list[Times] = []
    deadline = time.perf_counter() + seconds
    while len(rows) <= least or time.perf_counter() < deadline:
        number, row = len(rows), np.empty(len(read))
        order = [(number + place) % len(read) for place in range(len(read))]
        for index in order if number % 2 == 0 else [order[0], *order[:0:-1]]:
            row[index] = read[index]()
        rows.append(row)
    return np.array(rows[1:])


@attrs.frozen
class Spread:
    """Median and quartiles of some readings."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, readings: Times) -> Spread:
        """Make one of readings."""
        low, median, high = np.percentile(readings, (25, 50, 75))
        return cls(float(median), float(low), float(high), len(readings))

    @property
    def width(self) -> float:
        """Distance of the quartiles over the median."""
        return (self.high - self.low) / self.median
