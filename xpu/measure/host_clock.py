"""The plain host clock: the tier of a timer that was given no other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xpu.spec import TimerTier

_CALIBRATION_BRACKETS: Final = 200
"""Empty brackets of which the shortest is taken; 200 of them cost under 0.1 ms."""


class HostClock(TimerTier):
    """Wall time of launches that are done when they return.

    The shortest of some empty brackets, measured once when the clock is made, is taken
    off each reading. Its scale is 1 by definition.
    """

    name = "host clock"

    def __init__(self) -> None:
        self._overhead_ns = min(_elapsed_ns(()) for _ in range(_CALIBRATION_BRACKETS))

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Run the launches and return nanoseconds for all; NaN where nothing is left of it."""
        elapsed = _elapsed_ns(launches) - self._overhead_ns
        return float(elapsed) if elapsed > 0 else math.nan

    def describe(self) -> Mapping[str, Any]:
        """Return what an empty bracket costs."""
        return {"overhead_ns": self._overhead_ns}


def _elapsed_ns(launches: Sequence[Callable[[], None]]) -> int:
    started = time.perf_counter_ns()
    for launch in launches:
        launch()
    return time.perf_counter_ns() - started
