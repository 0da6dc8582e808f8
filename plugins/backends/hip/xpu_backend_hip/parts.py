"""What an event clock is made of, and what it measures of itself.

Only an `EventTimer` uses this, one bracket at a time, with the context current.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import Final

from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.stall import Stall
from xpu_backend_hip.ways import Events, Queue, Replay, Way

_SHORT_NS: Final = 500_000
_LONG_NS: Final = 2_500_000
_TRIES: Final = 5
_MOST_TRIES: Final = 50
_SAMPLES: Final = 15
_REPEATS: Final = 9


class Parts:
    """Two events, what holds a stream, and the two ways to take a bracket with them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stall = Stall(context)
        self._events = Events(context)
        self._replay = Replay(context, self._events, self._stall)
        self.ways: dict[Way, Replay | Queue] = {
            "replay": self._replay,
            "queue": Queue(context, self._events, self._stall),
        }

    def scale(self, stream: int) -> float:
        """Return host time over event time, from pauses of two lengths: what both cost goes.

        A pause is as long as the host makes it, or longer, so of each length and each clock the
        shortest one counts, and on a busy host more are tried.
        """
        short = long = (math.inf, math.inf)
        for tries in range(_MOST_TRIES):
            short = _least(short, self._pause(stream, _SHORT_NS))
            long = _least(long, self._pause(stream, _LONG_NS))
            if tries >= _TRIES - 1 and long[1] > 2 * short[1]:
                break
        return (long[0] - short[0]) / max(long[1] - short[1], 1.0)

    def own_ns(self, way: Way, stream: int) -> float:
        """Return what a bracket reads beyond its launches: what is left of none of them.

        One launch that does nothing, and several: an empty bracket would leave out what
        starting the first and ending the last one costs.
        """

        def nothing() -> None:
            self._stall.nothing(stream)

        take = self.ways[way].bracket_ns
        one, several = (
            statistics.median(take(stream, launches) for _ in range(_SAMPLES))
            for launches in ([nothing], [nothing] * _REPEATS)
        )
        return max((_REPEATS * one - several) / (_REPEATS - 1), 0.0)

    def hop_ns(self, stream: int, other: int) -> float:
        """Return the least time of work on a stream, and work on another that waits for it."""
        hip, events, what = self._context.hip, self._events, "streams cannot be joined"
        met = checked(hip.hipEventCreateWithFlags(0), what)
        readings = []
        try:
            for _ in range(_SAMPLES):
                self._stall.hold(stream, _LONG_NS)
                checked(hip.hipEventRecord(events.start, stream), what)
                self._stall.nothing(stream)
                checked(hip.hipEventRecord(met, stream), what)
                checked(hip.hipStreamWaitEvent(other, met, 0), what)
                self._stall.nothing(other)
                checked(hip.hipEventRecord(events.end, other), what)
                self._stall.release()
                checked(hip.hipEventSynchronize(events.end), what)
                readings.append(events.elapsed_ns())
        finally:
            self._stall.release()
            self._context.quietly(lambda hip: hip.hipEventDestroy(met))
        return min(readings)

    def close(self) -> None:
        """Give everything back."""
        self._replay.close()
        self._events.close()
        self._stall.close()

    def _pause(self, stream: int, duration_ns: int) -> tuple[float, float]:
        """Return the host's and the events' nanoseconds of a pause in the queue."""
        hip, events, what = self._context.hip, self._events, "a pause failed"
        checked(hip.hipStreamSynchronize(stream), what)
        start = time.perf_counter_ns()
        checked(hip.hipEventRecord(events.start, stream), what)
        self._stall.pause(stream, duration_ns)
        checked(hip.hipEventRecord(events.end, stream), what)
        checked(hip.hipStreamSynchronize(stream), what)
        return float(time.perf_counter_ns() - start), events.elapsed_ns()


def _least(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return min(one[0], other[0]), min(one[1], other[1])
