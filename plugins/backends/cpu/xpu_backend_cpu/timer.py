"""The host clock as a timer: what a bracket itself costs is measured once and taken off."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Final

from xpu.spec import TimerTier

_SAMPLES: Final = 301
_CALLS: Final = 20


class HostTimer(TimerTier):
    """Brackets launches with the host's clock.

    Parameters
    ----------
    nothing
        A launch that does nothing: its cost is that of every launch.
    """

    name = "host"
    # After matrix or wide vector instructions a core's clock stays low for up to a
    # millisecond. Without settling, trials on a part with matrix tiles put a tile member 3 %
    # ahead of an 8-bit one that is 8 % faster when either runs for itself; from 1 ms on the
    # order was the latter. Source: own measurement, q6k_tile 8x1024x1024, 2026-11-30.
    settle_ns = 1_000_000.0

    def __init__(self, nothing: Callable[[], None]) -> None:
        for _ in range(_SAMPLES):
            nothing()
        empty = [_elapsed_ns(()) for _ in range(_SAMPLES)]
        calls = [_elapsed_ns((nothing,) * _CALLS) for _ in range(_SAMPLES)]
        self._empty_ns = statistics.median(empty)
        self._call_ns = max((statistics.median(calls) - self._empty_ns) / _CALLS, 0.0)
        # A reading within what empty brackets differ by says nothing about the launches.
        self._resolution_ns = _step_ns() + statistics.quantiles(empty, n=20)[-1] - self._empty_ns

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Run launches and return the nanoseconds of all; NaN below the clock's resolution."""
        elapsed = _elapsed_ns(launches)
        spent = elapsed - self._empty_ns - self._call_ns * len(launches)
        return spent if spent > self._resolution_ns else math.nan

    def describe(self) -> Mapping[str, float]:
        """Return the calibration, in nanoseconds."""
        return {
            "empty_bracket_ns": self._empty_ns,
            "call_ns": self._call_ns,
            "resolution_ns": self._resolution_ns,
        }


def _elapsed_ns(launches: Sequence[Callable[[], None]]) -> int:
    start = perf_counter_ns()
    for launch in launches:
        launch()
    return perf_counter_ns() - start


def _step_ns() -> float:
    """Return the least step that two looks at the clock are seen to make."""
    steps = []
    for _ in range(_SAMPLES):
        start = perf_counter_ns()
        now = perf_counter_ns()
        while now == start:
            now = perf_counter_ns()
        steps.append(now - start)
    return float(min(steps))
