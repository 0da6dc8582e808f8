"""What an event clock is made of, and what it measures of itself.

Only an `EventTimer` uses this, one bracket at a time, with the context current.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.stall import Stall
from xpu_backend_cuda.ways import Events, Launches, Queue, Replay, Way

_SHORT_NS: Final = 500_000
_LONG_NS: Final = 2_500_000
_TRIES: Final = 5
_SAMPLES: Final = 15
_REPEATS: Final = 9
_MOST_BLOCKS: Final = 997
_STRIDE: Final = 616
"""Numbers of blocks in turn, far from each other: the stride is 997 times the golden section."""


class Parts:
    """Two events, a kernel that holds a stream, and the two ways to take a bracket with them.

    Before a bracket a kernel that does nothing runs, each time in another number of blocks. A
    device hands out blocks from where the last launch left off, so that kernels which only
    follow each other keep to one order of their blocks, for as long as they do: two that took 18.5
    and 18.6 us on the whole read 1.4 % apart, the wrong way round, for seconds on end.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stall = Stall(context)
        self._events = Events(context)
        self._replay = Replay(context, self._events)
        self.ways: dict[Way, Replay | Queue] = {
            "replay": self._replay,
            "queue": Queue(context, self._events, self._stall),
        }
        self._blocks = 0

    def bracket_ns(self, way: Way, stream: int, launches: Launches) -> float:
        """Return nanoseconds between the events around all launches, as a way takes them."""
        self._blocks = (self._blocks + _STRIDE) % _MOST_BLOCKS
        self._stall.nothing(stream, self._blocks + 1)
        return self.ways[way].bracket_ns(stream, launches)

    def scale(self, stream: int) -> float:
        """Return host time over event time, from pauses of two lengths: what both cost goes."""
        scales = []
        for _ in range(_TRIES):
            short, long = self._pause(stream, _SHORT_NS), self._pause(stream, _LONG_NS)
            scales.append((long[0] - short[0]) / max(long[1] - short[1], 1.0))
        return statistics.median(scales)

    def own_ns(self, way: Way, stream: int) -> float:
        """Return what a bracket reads beyond its launches: what is left of none of them.

        One launch that does nothing, and several: an empty bracket would leave out what
        starting the first and ending the last one costs.
        """

        def nothing() -> None:
            self._stall.nothing(stream)

        one, several = (
            statistics.median(self.bracket_ns(way, stream, launches) for _ in range(_SAMPLES))
            for launches in ([nothing], [nothing] * _REPEATS)
        )
        return max((_REPEATS * one - several) / (_REPEATS - 1), 0.0)

    def hop_ns(self, stream: int, other: int) -> float:
        """Return the least time of a kernel, and one on another stream that waits for it."""
        cu, events, what = self._context.cu, self._events, "streams cannot be joined"
        met = checked(cu.cuEventCreate(0), what)
        readings = []
        try:
            for _ in range(_SAMPLES):
                self._stall.hold(stream, _LONG_NS)
                checked(cu.cuEventRecord(events.start, stream), what)
                self._stall.nothing(stream)
                checked(cu.cuEventRecord(met, stream), what)
                checked(cu.cuStreamWaitEvent(other, met, 0), what)
                self._stall.nothing(other)
                checked(cu.cuEventRecord(events.end, other), what)
                self._stall.release()
                checked(cu.cuEventSynchronize(events.end), what)
                readings.append(events.elapsed_ns())
        finally:
            self._stall.release()
            self._context.quietly(lambda cu: cu.cuEventDestroy(met))
        return min(readings)

    def close(self) -> None:
        """Give everything back."""
        self._replay.close()
        self._events.close()
        self._stall.close()

    def _pause(self, stream: int, duration_ns: int) -> tuple[float, float]:
        """Return the host's and the events' nanoseconds of a kernel that pauses."""
        cu, events, what = self._context.cu, self._events, "a kernel that pauses failed"
        checked(cu.cuStreamSynchronize(stream), what)
        start = time.perf_counter_ns()
        checked(cu.cuEventRecord(events.start, stream), what)
        self._stall.pause(stream, duration_ns)
        checked(cu.cuEventRecord(events.end, stream), what)
        checked(cu.cuStreamSynchronize(stream), what)
        return float(time.perf_counter_ns() - start), events.elapsed_ns()
