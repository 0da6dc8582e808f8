"""The packed launches of one member, used again for whatever arrays a call brings.

They are kept in a list for each stream. A call takes one out, moves it to its arrays, makes it
and puts it back. Where memory comes with a launch (activations brought to 8 bits), each thread
has lists of its own: so that memory is shared by launches that one thread queued on one stream,
which run one after another, and by no others, and does not grow with the arrays. What is
recorded has memory of its own, since it may be replayed beside anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Final, cast

from xpu.choice import On, Packer, on
from xpu.spec import Device, DeviceArray

_MOST_STREAMS: Final = 64
"""Streams of one thread for which launches are kept; past that all are packed anew. A key holds
the stream object, so that its number does not become another's while its launches are kept."""

Kept = tuple[On, bool, Any]
"""A launch on other arrays, whether to ask before each use if its stream is being captured, and
the launch as it was packed."""
Free = list[Kept]
Make = Callable[[Sequence[int], Any], None]
"""Launches on arrays at some addresses, on a stream."""


class Launches:
    """Packed launches that can be moved.

    Parameters
    ----------
    device, packer
        Where they go, and who packs them.
    arrays_at
        Describes arrays by their addresses, for packing.
    """

    def __init__(
        self,
        device: Device,
        packer: Packer,
        arrays_at: Callable[[Sequence[int]], list[DeviceArray]],
    ) -> None:
        self._device = device
        self._packer = packer
        self._arrays_at = arrays_at
        # Memory is each thread's, since one number may mean another stream in each: its own
        # default stream. Launches without memory serve all threads.
        self._has_memory = packer.has_memory
        self._free: dict[Any, Free] = {}
        self._own = threading.local()

    def free(self, stream: Any) -> Free:
        """Return the launches for a stream that nobody is making.

        Raises
        ------
        TypeError
            The stream cannot be hashed.
        """
        kept = self._own.__dict__.setdefault("free", {}) if self._has_memory else self._free
        if stream not in kept and len(kept) >= _MOST_STREAMS:
            kept.clear()
        found: Free = kept.setdefault(stream, [])
        return found

    def making(self) -> Make:
        """Return what launches, with memory that is nobody else's meanwhile.

        A function that looks little up by name: that saves 0.1 us of each call.
        """
        own, shared, has_memory = self._own, self._free, self._has_memory
        is_captured, make_first, packed = self._device.is_capturing, self._make_first, self._packed

        def make(addresses: Sequence[int], stream: Any) -> None:
            try:
                free: Free = own.free[stream] if has_memory else shared[stream]
                kept = free.pop()
            except (AttributeError, KeyError, IndexError):
                make_first(addresses, stream)
                return
            launch_on, has_to_ask, _ = kept
            if has_to_ask and is_captured(stream):
                free.append(kept)
                packed(addresses, stream)()
                return
            launch_on(addresses)
            free.append(kept)

        return make

    def _make_first(self, addresses: Sequence[int], stream: Any) -> None:
        launch: Any = self._packed(addresses, stream)
        launch()  # what was packed under capture keeps its memory, for the recording
        has_to_ask = self._has_memory and getattr(launch, "is_recordable", True)
        if not (has_to_ask and self._device.is_capturing(stream)):
            self.free(stream).append((cast("On", on(launch)), has_to_ask, launch))

    def kept(self, addresses: Sequence[int], stream: Any) -> Callable[[], None]:
        """Pack what launches on arrays at these addresses for many times.

        With memory it is for the thread that asks, and shares that of the thread's others on
        the stream; in another thread, or under capture, it does what `making` returns.
        """
        if not self._has_memory:
            return self._packed(addresses, stream)
        free, make = self.free(stream), partial(self.making(), addresses, stream)
        if not free or not self._packer.shares_memory:
            return make
        _, has_to_ask, other = free[-1]
        owner, is_captured = get_ident(), self._device.is_capturing
        if has_to_ask and is_captured(stream):
            return make
        packed = self._packer(self._arrays_at(addresses), stream, other.memory)

        def launch() -> None:
            if get_ident() != owner or (has_to_ask and is_captured(stream)):
                make()
            else:
                packed()

        return launch

    def _packed(self, addresses: Sequence[int], stream: Any) -> Callable[[], None]:
        return self._packer(self._arrays_at(addresses), stream)
