"""The clock of the emulated part: the host's. Its times say nothing about any real part."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Final

from xpu.spec import TimerTier

_SAMPLES: Final = 101


class EmulatorTimer(TimerTier):
    """Brackets launches with the host's clock."""

    name = "emulator"

    def __init__(self) -> None:
        self._empty_ns = statistics.median(_elapsed_ns(()) for _ in range(_SAMPLES))

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Run launches and return the nanoseconds of all."""
        spent = _elapsed_ns(launches) - self._empty_ns
        return spent if spent > 0 else math.nan

    def describe(self) -> Mapping[str, object]:
        """Return the calibration, and what the times are worth."""
        return {"empty_bracket_ns": self._empty_ns, "meaning": "time to emulate, on this host"}


def _elapsed_ns(launches: Sequence[Callable[[], None]]) -> int:
    start = perf_counter_ns()
    for launch in launches:
        launch()
    return perf_counter_ns() - start
