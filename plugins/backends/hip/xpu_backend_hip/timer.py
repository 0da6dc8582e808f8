"""The device's events as a clock: calibrated against the host's, and never the host's pace.

Launches that are to be timed are packed for the tier's own stream, which no other work
blocks; they are replayed as a graph. What goes elsewhere (the default stream, a program's
own) is launched one by one. Either waits behind a hold until all is queued.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from xpu.errors import XpuLaunchException
from xpu.spec import TimerTier
from xpu_backend_hip.clocks import ClockWatch
from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.launch import LEGACY_STREAM
from xpu_backend_hip.parts import Parts
from xpu_backend_hip.sysfs import Sysfs
from xpu_backend_hip.ways import HostBound, Launches, NotCaptured, Way

_NON_BLOCKING: Final = 0x1
"""A stream of its own. Source: hipStreamNonBlocking of hip_runtime_api.h."""
_LEAST_SCALE: Final = 0.5
_MOST_SCALE: Final = 2.0
"""Allowed host seconds per event second. Source: design, "Timing"."""
_MOST_LATE: Final = 3
"""Replays in succession that were late: then this runtime does not queue a graph behind a hold."""
_TOLD_APART: Final = 0.01
"""Scales nearer to 1 are taken to be 1: a calibration of milliseconds cannot tell them apart."""


class EventTimer(TimerTier):
    """Brackets launches with events.

    Nothing but a stream is made until the first bracket, which calibrates the clock.

    Parameters
    ----------
    context
        Where the launches go.
    sysfs
        Who knows the clock.
    way
        ``replay``: launches on the tier's stream are replayed as a graph; ``queue``: they
        are launched one by one.
    """

    name = "events"

    def __init__(self, context: Context, sysfs: Sysfs, way: Way = "replay") -> None:
        self._context = context
        self._way: Way = way
        self._watch = ClockWatch(sysfs)
        self._lock = threading.Lock()
        self._counts = {"brackets": 0, "host_bound": 0, "not_captured": 0}
        self._last_cause = ""
        self._late_replays = 0
        self._scale: float | None = None
        self._own_ns: dict[Way, float] = {}
        with context.current() as hip:
            made = hip.hipStreamCreateWithFlags(_NON_BLOCKING)
            self._stream = checked(made, "a stream cannot be had")
        self.stream = int(self._stream)
        self._parts: Parts | None = None
        self._is_closed = False

    def bracket_ns(self, launches: Launches) -> float:
        """Run the launches and return nanoseconds for all of them.

        NaN when the host was the slower one; `describe` counts those. Whether heat or the power
        supply held the device's clock down cannot be said here, and drops no bracket.

        Raises
        ------
        XpuLaunchException
            A launch failed, the launches go to several streams, or the device's clock does
            not keep time.
        """
        streams = {getattr(launch, "stream", LEGACY_STREAM) for launch in launches}
        if len(streams) > 1:
            raise XpuLaunchException(
                f"the launches of one bracket go to {len(streams)} streams; pack them for one, "
                "best for the timer's own (timer.stream)"
            )
        with self._turn() as hip:
            scale = self._calibrated()
            self._counts["brackets"] += 1
            if not streams:
                return math.nan
            # Copies and poison that the launches read are queued on the legacy stream.
            checked(hip.hipStreamSynchronize(LEGACY_STREAM), "earlier work failed")
            try:
                read_ns = self._read(streams.pop(), launches)
            except HostBound as cause:
                self._counts["host_bound"] += 1
                self._last_cause = str(cause)
                return math.nan
            self._watch.look()
        return read_ns * scale if read_ns > 0 else math.nan

    def describe(self) -> Mapping[str, Any]:
        """Return calibration, counts of brackets, and clocks."""
        told: dict[str, Any] = {"way": self._way, **self._counts}
        if self._last_cause:
            told["last_cause"] = self._last_cause
        if self._scale is not None:
            told["host_per_event"] = self._scale
        told.update({f"{way}_own_ns": cost for way, cost in self._own_ns.items()})
        return {**told, **self._watch.describe()}

    def queue_ns(self) -> float:
        """Measure how much later work starts that waits for other work on another stream."""
        with self._turn() as hip:
            scale, parts = self._calibrated(), self._made()
            made = hip.hipStreamCreateWithFlags(_NON_BLOCKING)
            other = checked(made, "a second stream cannot be had")
            try:
                apart = parts.hop_ns(self.stream, int(other))
                together = parts.hop_ns(self.stream, self.stream)
            finally:
                self._context.quietly(lambda hip: hip.hipStreamDestroy(other))
        return max(apart - together, 0.0) * scale

    def close(self) -> None:
        """Give back what was made, at the end of a bracket under way; none is taken any more."""
        self._is_closed = True
        # A finalizer may call this in the midst of a bracket of the same thread.
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    @contextmanager
    def _turn(self) -> Iterator[Any]:
        with self._lock:
            try:
                with self._context.current() as hip:
                    yield hip
            finally:
                if self._is_closed:
                    self._end()

    def _end(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            self._context.quietly(lambda hip: hip.hipStreamDestroy(stream))

    def _read(self, stream: int, launches: Launches) -> float:
        if self._way == "replay" and stream == self.stream:
            try:
                read_ns = self._bracket("replay", stream, launches)
                self._late_replays = 0
                return read_ns
            except NotCaptured as cause:
                self._counts["not_captured"] += 1
                self._last_cause = str(cause)
            except HostBound:
                self._late_replays += 1
                if self._late_replays == _MOST_LATE:
                    self._way = "queue"
                raise
        return self._bracket("queue", stream, launches)

    def _bracket(self, way: Way, stream: int, launches: Launches) -> float:
        """Return event nanoseconds of the launches, less what such a bracket costs by itself."""
        parts = self._made()
        if way not in self._own_ns:
            self._own_ns[way] = parts.own_ns(way, self.stream)
        return parts.ways[way].bracket_ns(stream, launches) - self._own_ns[way]

    def _made(self) -> Parts:
        if self._is_closed:
            raise XpuLaunchException("this clock was closed; ask the device for its timer again")
        if self._parts is None:
            self._parts = Parts(self._context)
        return self._parts

    def _calibrated(self) -> float:
        """Return host nanoseconds per event nanosecond, measured once."""
        if self._scale is None:
            scale = self._made().scale(self.stream)
            if not _LEAST_SCALE <= scale <= _MOST_SCALE:
                raise XpuLaunchException(
                    f"the event clock of device {self._context.index} runs at {scale:g} of the "
                    f"host clock; allowed: {_LEAST_SCALE:g} to {_MOST_SCALE:g}; no time of it is "
                    "used: look for a driver that reports true times"
                )
            self._scale = 1.0 if abs(scale - 1) < _TOLD_APART else scale
        return self._scale
