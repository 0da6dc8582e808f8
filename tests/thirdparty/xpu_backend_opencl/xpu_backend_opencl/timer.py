"""The clock of a device's events, and the host's where events cannot be believed."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyopencl as cl

from xpu.spec import TimerTier

if TYPE_CHECKING:
    from xpu_backend_opencl.device import OpenClDevice

_COPY_BYTES: Final = 16 << 20
_SAMPLES: Final = 5
_LEAST_SCALE: Final = 0.5
_MOST_SCALE: Final = 2.0


class EventTimer(TimerTier):
    """Adds up what the events of a bracket's launches last, in the host's nanoseconds."""

    name = "events"

    def __init__(self, device: OpenClDevice, scale: float) -> None:
        self._device = device
        self._scale = scale

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Queue the launches and return the nanoseconds of all; NaN without believable events."""
        with self._device.recorded() as events:
            for launch in launches:
                launch()
        try:
            spans = [event.profile.end - event.profile.start for event in events]
        except cl.Error:
            return math.nan
        if len(spans) != len(launches) or min(spans, default=0) <= 0:
            return math.nan
        return float(sum(spans)) * self._scale

    def describe(self) -> Mapping[str, Any]:
        """Return the calibration: host time over event time."""
        return {"host_per_event": self._scale}


class HostTimer(TimerTier):
    """The host's clock around launches and the wait for them."""

    name = "host"

    def __init__(self, device: OpenClDevice) -> None:
        self._device = device

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        """Run the launches and return the nanoseconds of all."""
        start = time.perf_counter_ns()
        with self._device.recorded():
            for launch in launches:
                launch()
        return float(time.perf_counter_ns() - start)


def timer_of(device: OpenClDevice, queue: cl.CommandQueue) -> TimerTier:
    """Return the event clock where it agrees with the host's within a factor of two."""
    source, target = (
        cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, _COPY_BYTES) for _ in range(2)
    )
    scales = []
    for _ in range(_SAMPLES + 1):
        start = time.perf_counter_ns()
        event = cl.enqueue_copy(queue, target, source)
        event.wait()
        host_ns = time.perf_counter_ns() - start
        try:
            scales.append(host_ns / max(event.profile.end - event.profile.start, 1))
        except cl.Error:
            return HostTimer(device)
    scale = statistics.median(scales[1:])  # the first one maps the memory
    return EventTimer(device, scale) if _LEAST_SCALE <= scale <= _MOST_SCALE else HostTimer(device)
