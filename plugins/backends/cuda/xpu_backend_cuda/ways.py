"""Two ways to time launches so that the host is never what is measured.

`Replay` captures them in a graph, whose replay the device makes by itself. `Queue` holds
their stream while the host queues them. Both return what lies between two events, in
nanoseconds, bracket and all; the context is current, and one bracket is taken at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import attrs

from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.errors import error_name
from xpu_backend_cuda.stall import Stall

Launches = Sequence[Callable[[], None]]
Way = Literal["replay", "queue"]

_MOST_GRAPHS: Final = 64
"""Graphs that are kept: eight members of eight copies each, a usual cold trial."""
_MOST_QUEUED: Final = 256
"""Launches that a held stream takes, each of which may be two and a clearing. The driver's own
queue has 1,024 places, and a host that waits for one would wait for itself."""
_HOLD_NS: Final = 20_000_000
"""Longest hold: a hundred times what the host needs to queue a usual bracket."""
_EXTERNAL: Final = 0x1
"""An event that is seen outside its graph. Source: CU_EVENT_RECORD_EXTERNAL of cuda.h."""


class NotCaptured(Exception):  # noqa: N818 - no error: the other way is taken
    """The launches cannot be captured."""


class HostBound(Exception):  # noqa: N818 - no error: the bracket is not believed
    """The device did not wait for the host: what was read may be the host's pace."""


class Events:
    """Two events of one context, and what lies between them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        with context.current() as cu:
            self.start, self.end = (
                checked(cu.cuEventCreate(0), "an event cannot be had") for _ in range(2)
            )

    def elapsed_ns(self) -> float:
        """Return what lies between them; both have come to pass."""
        cu = self._context.cu
        return 1e6 * float(checked(cu.cuEventElapsedTime(self.start, self.end), "no time"))

    def close(self) -> None:
        """Give them back."""
        self._context.quietly(lambda cu: [cu.cuEventDestroy(one) for one in (self.start, self.end)])


@attrs.frozen(eq=False)
class _Graph:
    """Launches ready to be replayed, and the launches, to know them again by."""

    executable: Any
    launches: tuple[weakref.ref[Any], ...]

    def is_of(self, launches: Launches) -> bool:
        # Numbers of dead objects are given to new ones, whose launches are others.
        return all(ref() is launch for ref, launch in zip(self.launches, launches, strict=True))

    def is_dead(self) -> bool:
        return any(ref() is None for ref in self.launches)


class Replay:
    """Replays launches as a graph; the events are part of it, so no call lies between them."""

    def __init__(self, context: Context, events: Events) -> None:
        self._context = context
        self._events = events
        self._graphs: dict[tuple[int, ...], _Graph] = {}

    def bracket_ns(self, stream: int, launches: Launches) -> float:
        """Return nanoseconds between the events around all launches.

        Raises
        ------
        NotCaptured
            The launches go elsewhere, or the stream cannot be captured.
        """
        cu = self._context.cu
        graph = self._graph(stream, launches)
        checked(cu.cuGraphLaunch(graph.executable, stream), "a graph cannot be replayed")
        checked(cu.cuStreamSynchronize(stream), "timed launches failed")
        return self._events.elapsed_ns()

    def close(self) -> None:
        """Give all graphs back."""
        for graph in self._graphs.values():
            self._destroy(graph)
        self._graphs.clear()

    def _graph(self, stream: int, launches: Launches) -> _Graph:
        key = (stream, *map(id, launches))
        graph = self._graphs.pop(key, None)
        if graph is not None and not graph.is_of(launches):
            self._destroy(graph)
            graph = None
        if graph is None:
            self._make_room()
            graph = _Graph(self._captured(stream, launches), tuple(map(weakref.ref, launches)))
        self._graphs[key] = graph  # the last is the one used last
        return graph

    def _make_room(self) -> None:
        for key in [key for key, graph in self._graphs.items() if graph.is_dead()]:
            self._destroy(self._graphs.pop(key))
        while len(self._graphs) >= _MOST_GRAPHS:
            self._destroy(self._graphs.pop(next(iter(self._graphs))))

    def _captured(self, stream: int, launches: Launches) -> Any:
        graph = self._capture(stream, launches)
        cu = self._context.cu
        try:
            *_, nodes = checked(cu.cuGraphGetNodes(graph, 0), "a graph cannot be read")
            if int(nodes) < len(launches) + 2:
                raise NotCaptured("the launches go to another stream")
            executable = checked(cu.cuGraphInstantiate(graph, 0), "a graph cannot be made")
        finally:
            cu.cuGraphDestroy(graph)
        # Else its first replay would bring it to the device, and that one is timed.
        code = cu.cuGraphUpload(executable, stream)[0]
        if code:
            self._context.quietly(lambda cu: cu.cuGraphExecDestroy(executable))
            checked((code,), "a graph cannot be brought to the device")
        return executable

    def _capture(self, stream: int, launches: Launches) -> Any:
        cu, events = self._context.cu, self._events
        relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        code = cu.cuStreamBeginCapture(stream, relaxed)[0]
        if code:
            raise NotCaptured(f"the stream cannot be captured: {error_name(code)}")
        try:
            _record(cu, events.start, stream)
            for launch in launches:
                launch()
            _record(cu, events.end, stream)
        except BaseException:
            code, graph = cu.cuStreamEndCapture(stream)
            if not code:
                cu.cuGraphDestroy(graph)
            raise
        code, graph = cu.cuStreamEndCapture(stream)
        if code:
            raise NotCaptured(f"the capture failed: {error_name(code)}")
        return graph

    def _destroy(self, graph: _Graph) -> None:
        self._context.quietly(lambda cu: cu.cuGraphExecDestroy(graph.executable))


def _record(cu: Any, event: Any, stream: int) -> None:
    result = cu.cuEventRecordWithFlags(event, stream, _EXTERNAL)
    checked(result, "an event cannot be captured")


class Queue:
    """Holds the stream, queues event, launches and event, and lets it go."""

    def __init__(self, context: Context, events: Events, stall: Stall) -> None:
        self._context = context
        self._events = events
        self._stall = stall

    def bracket_ns(self, stream: int, launches: Launches) -> float:
        """Return nanoseconds between the events around all launches.

        Raises
        ------
        HostBound
            The host was not done when the hold ended by itself, or cannot be.
        """
        if len(launches) > _MOST_QUEUED:
            raise HostBound(f"{len(launches)} launches, a held stream takes {_MOST_QUEUED}")
        cu, events, what = self._context.cu, self._events, "an event cannot be recorded"
        self._stall.hold(stream, _HOLD_NS)
        try:
            checked(cu.cuEventRecord(events.start, stream), what)
            for launch in launches:
                launch()
            checked(cu.cuEventRecord(events.end, stream), what)
        finally:
            self._stall.release()
        checked(cu.cuEventSynchronize(events.end), "timed launches failed")
        if self._stall.was_late:
            raise HostBound(f"the host needed more than {_HOLD_NS // 1_000_000} ms")
        return events.elapsed_ns()
