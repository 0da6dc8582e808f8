"""One bracket of launches on a clock, and how many launches of which copies go into it.

Brackets of the same launches are made alike as far as can be: a clock that replays recorded
launches then records each of them once, and recording takes longer than replaying.
"""

from __future__ import annotations

import bisect
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from xpu.errors import XpuConfigError
from xpu.measure.host_clock import HostClock
from xpu.spec import TimerTier

Launch = Callable[[], None]
Launches = Launch | Sequence[Launch]

PROTOCOL: Final = "4"
"""Version of how time is taken and judged; part of what a remembered answer rests on.

Raise it whenever brackets, rounds or the decision change what an answer means.
"""

LAUNCHES: Final = 20
"""Launches of a bracket. Source: seeds, "The discipline": near the launch floor a bracket
reads up to twelve percent of noise, so a choice uses brackets of twenty launches."""

_ALIKE: Final = 1.35
"""A bracket keeps its number of launches while what fits differs by less than this: estimates
scatter by some percent, and each other number would be another recording."""

_MOST_AROUND: Final = 64
"""All copies are launched in one bracket, more than twenty too, where they are at most so many and
the time allows: members that read different ones would differ by what these differ by."""

BRACKET_BUDGET_NS: Final = 500_000
"""Device time that a bracket may take before it gets fewer launches: 0.5 ms drowns every
known clock's step, and eight arms of fourteen rounds stay under a tenth of a second."""


@attrs.define
class Turn:
    """Whose turn is next among copies. Launches that share their copies share one."""

    position: int = 0


@attrs.define
class _Memory:
    """What is known of launches seen before: nanoseconds of one, launches of a bracket, a turn."""

    estimate_ns: float | None = None
    launches: int = 0
    turn: Turn = attrs.field(factory=Turn)


class KernelTimer:
    """Takes brackets of launches on a clock.

    Parameters
    ----------
    tier
        The clock; without one the host's, which suits launches that are done when they
        return.
    launches
        Launches of a bracket, at least 1. A bracket of twenty grows to all copies of a rotation
        where these are a few more and the budget allows.
    bracket_budget_ns
        Device time that a bracket should not pass, in nanoseconds. A bracket has fewer
        launches when all of them would pass it, but always one.

    Raises
    ------
    XpuConfigError
        `launches` is under 1, or the budget is not above 0.

    Notes
    -----
    The estimate of a launch's time and the place in a rotation are kept by the first
    launch that is given, for as long as the caller keeps that object.
    """

    def __init__(
        self,
        tier: TimerTier | None = None,
        *,
        launches: int = LAUNCHES,
        bracket_budget_ns: float = BRACKET_BUDGET_NS,
    ) -> None:
        if launches < 1:
            raise XpuConfigError(f"a bracket has at least 1 launch; given: launches={launches!r}")
        if not bracket_budget_ns > 0:
            raise XpuConfigError(
                f"a bracket's budget is above 0 ns; given: bracket_budget_ns={bracket_budget_ns!r}"
            )
        self.tier: Final = HostClock() if tier is None else tier
        self._most = launches
        self._budget_ns = bracket_budget_ns
        self._known: weakref.WeakKeyDictionary[Launch, _Memory] = weakref.WeakKeyDictionary()

    def time_ns(
        self, launches: Launches, *, estimate_ns: float | None = None, turn: Turn | None = None
    ) -> float:
        """Take one bracket and return nanoseconds a launch.

        Parameters
        ----------
        launches
            One launch, or copies of it on different data. Copies are taken in turn, and
            the turn goes on across brackets: one comes back after all the others, and where
            launches of unlike lengths share the turn after a quarter of them or more.
        estimate_ns
            Nanoseconds of one launch, if the caller knows. Else the last reading counts;
            of launches never seen, one is timed first and its reading is not returned.
        turn
            Where these launches take their turn, when others run on the same copies: each
            with a turn of its own would find warm what another has just read.

        Returns
        -------
        float
            Nanoseconds a launch; NaN when the clock says that the bracket cannot be
            believed, or gives no time above 0.
        """
        copies = _copies(launches)
        memory = self._memory_of(copies[0])
        if estimate_ns is not None:
            memory.estimate_ns = estimate_ns
        if memory.estimate_ns is None:
            self._bracket(copies, memory, turn, 1)
        self._settle(copies, memory, turn)
        return self._bracket(copies, memory, turn, self._count(memory, len(copies)))

    def warm_up(self, launches: Launches, *, turn: Turn | None = None) -> None:
        """Take one launch, then one bracket of more than that; their readings are only estimates.

        Not every copy: a cold rotation may have thousands, and the first launches have
        made warm what can be (code, threads, clocks).
        """
        copies = _copies(launches)
        memory = self._memory_of(copies[0])
        self._bracket(copies, memory, turn, 1)
        count = self._count(memory, len(copies))
        if count > 1:
            self._bracket(copies, memory, turn, count)

    def _settle(self, copies: Sequence[Launch], memory: _Memory, turn: Turn | None) -> None:
        """Run launches untimed for as long as the clock asks; a longer launch settles itself."""
        estimate = memory.estimate_ns
        if estimate is not None and 0 < estimate < self.tier.settle_ns:
            turn, count = turn or memory.turn, math.ceil(self.tier.settle_ns / estimate)
            self._read(copies, memory, turn, turn.position, count)

    def _count(self, memory: _Memory, copies: int) -> int:
        """Return how many launches of an estimated length fit, as before where that is near."""
        estimate = memory.estimate_ns
        if estimate is None or not 0 < estimate < math.inf:
            return 1
        fitting = max(1, int(self._budget_ns / estimate))
        is_whole = self._most < copies <= min(fitting, _MOST_AROUND) and self._most == LAUNCHES
        fitting = copies if is_whole else min(fitting, self._most)
        if is_whole or not memory.launches / _ALIKE <= fitting <= memory.launches * _ALIKE:
            memory.launches = fitting
        return memory.launches

    def _bracket(
        self, copies: Sequence[Launch], memory: _Memory, turn: Turn | None, count: int
    ) -> float:
        turn = turn or memory.turn
        start, count = _stretch(len(copies), turn.position, count, self._most)
        return self._read(copies, memory, turn, start, count)

    def _read(
        self, copies: Sequence[Launch], memory: _Memory, turn: Turn, start: int, count: int
    ) -> float:
        turn.position = (start + count) % len(copies)
        taken = [copies[(start + step) % len(copies)] for step in range(count)]
        reading = float(self.tier.bracket_ns(taken)) / count
        if not 0 < reading < math.inf:
            return math.nan
        memory.estimate_ns = reading
        return reading

    def _memory_of(self, launch: Launch) -> _Memory:
        try:
            return self._known.setdefault(launch, _Memory())
        except TypeError:  # neither hashable nor weakly referable: nothing can be kept for it
            return _Memory()


def _stretch(copies: int, position: int, wanted: int, most: int) -> tuple[int, int]:
    """Return first copy and number of launches of a bracket of at most `wanted` launches.

    All copies, as often as fit; or, where they do not fit once, one of the parts that they are
    divided into. Each smaller division divides the parts of the next larger one, so that
    launches of different lengths can share a turn and yet always begin where they have begun
    before. What lies before the next beginning is left out: less than the part, which is at
    most half of the copies.
    """
    if wanted >= copies:
        return position, wanted // copies * copies
    parts = -(-copies // most)
    while -(-copies // parts) > wanted:
        parts *= 2
    parts = min(parts, copies)
    begins = [part * copies // parts for part in range(parts + 1)]
    part = bisect.bisect_left(begins, position) % parts
    return begins[part], begins[part + 1] - begins[part]


def _copies(launches: Launches) -> Sequence[Launch]:
    copies = (launches,) if callable(launches) else launches
    if not copies:
        raise XpuConfigError("a bracket needs at least one launch; given: none")
    return copies
