"""Two ways to time launches so that the host is never what is measured.

`Replay` captures them in a graph, of which the host makes one call. `Queue` makes each launch. Both
hold their stream meanwhile, and let it go when all is queued: events that are recorded within a
graph cannot be had of every release of the runtime. Both return what lies between two events, in
nanoseconds, bracket and all; the device is current, and one bracket is taken at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import attrs

from xpu_backend_hip.context import RELAXED, Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.stall import Stall

Launches = Sequence[Callable[[], None]]
Way = Literal["replay", "queue"]

_MOST_GRAPHS: Final = 64
"""Graphs that are kept: eight members of eight copies each, a usual cold trial."""
_MOST_QUEUED: Final = 256
"""Launches that a held stream takes, each of which may be two and a clearing. The runtime's own
queue has 16,384 places (rocclr, ROC_AQL_QUEUE_SIZE), and a host that waits for one would wait for
itself."""
_HOLD_NS: Final = 20_000_000
"""Longest hold: a hundred times what the host needs to queue a usual bracket."""


class NotCaptured(Exception):  # noqa: N818 - no error: the other way is taken
    """The launches cannot be captured."""


class HostBound(Exception):  # noqa: N818 - no error: the bracket is not believed
    """The device did not wait for the host: what was read may be the host's pace."""


class Events:
    """Two events of one context, and what lies between them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        with context.current() as hip:
            self.start, self.end = (
                checked(hip.hipEventCreateWithFlags(0), "an event cannot be had") for _ in range(2)
            )

    def elapsed_ns(self) -> float:
        """Return what lies between them; both have come to pass."""
        hip = self._context.hip
        return 1e6 * float(checked(hip.hipEventElapsedTime(self.start, self.end), "no time"))

    def close(self) -> None:
        """Give them back."""
        self._context.quietly(
            lambda hip: [hip.hipEventDestroy(one) for one in (self.start, self.end)]
        )


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


def _held_ns(
    context: Context, events: Events, stall: Stall, stream: int, queue: Callable[[], None]
) -> float:
    """Hold a stream, queue something between the events, let the stream go, and wait."""
    hip, what = context.hip, "an event cannot be recorded"
    stall.hold(stream, _HOLD_NS)
    try:
        checked(hip.hipEventRecord(events.start, stream), what)
        queue()
        checked(hip.hipEventRecord(events.end, stream), what)
    finally:
        stall.release()
    checked(hip.hipEventSynchronize(events.end), "timed launches failed")
    if stall.was_late:
        raise HostBound(f"the host needed more than {_HOLD_NS // 1_000_000} ms")
    return events.elapsed_ns()


class Replay:
    """Replays launches as a graph."""

    def __init__(self, context: Context, events: Events, stall: Stall) -> None:
        self._context = context
        self._events = events
        self._stall = stall
        self._graphs: dict[tuple[int, ...], _Graph] = {}

    def bracket_ns(self, stream: int, launches: Launches) -> float:
        """Return nanoseconds between the events around all launches.

        Raises
        ------
        NotCaptured
            The launches go elsewhere, or the stream cannot be captured.
        HostBound
            The host was not done when the hold ended by itself.
        """
        hip = self._context.hip
        graph = self._graph(stream, launches)

        def replay() -> None:
            result = hip.hipGraphLaunch(graph.executable, stream)
            checked(result, "a graph cannot be replayed")

        return _held_ns(self._context, self._events, self._stall, stream, replay)

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
        hip = self._context.hip
        try:
            # Without a place for the nodes it says how many there are.
            nodes = checked(hip.hipGraphGetNodes(graph, None, 0), "a graph cannot be read")
            if nodes < len(launches):
                raise NotCaptured("the launches go to another stream")
            made = hip.hipGraphInstantiateWithFlags(graph, 0)
            executable = checked(made, "a graph cannot be made")
        finally:
            hip.hipGraphDestroy(graph)
        # Else its first replay would bring it to the device, and that one is timed.
        result = hip.hipGraphUpload(executable, stream)
        if result[0]:
            self._context.quietly(lambda hip: hip.hipGraphExecDestroy(executable))
            checked(result, "a graph cannot be brought to the device")
        return executable

    def _capture(self, stream: int, launches: Launches) -> Any:
        hip = self._context.hip
        code = hip.hipStreamBeginCapture(stream, RELAXED)[0]
        if code:
            raise NotCaptured(f"the stream cannot be captured: {hip.error_name(code)}")
        try:
            for launch in launches:
                launch()
        except BaseException:
            code, graph = hip.hipStreamEndCapture(stream)
            if not code:
                hip.hipGraphDestroy(graph)
            raise
        code, graph = hip.hipStreamEndCapture(stream)
        if code:
            raise NotCaptured(f"the capture failed: {hip.error_name(code)}")
        return graph

    def _destroy(self, graph: _Graph) -> None:
        self._context.quietly(lambda hip: hip.hipGraphExecDestroy(graph.executable))


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

        def queue() -> None:
            for launch in launches:
                launch()

        return _held_ns(self._context, self._events, self._stall, stream, queue)
