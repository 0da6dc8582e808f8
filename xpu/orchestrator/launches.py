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

from xpu.choice import Packer
from xpu.spec import Device, DeviceArray, MovableLaunch

_MOST_STREAMS: Final = 64
"""Streams of one thread for which launches are kept; past that all are packed anew. A key holds
the stream object, so that its number does not become another's while its launches are kept."""

Kept = tuple[MovableLaunch, Callable[[Sequence[int]], None], bool]
"""A launch, its `move`, and whether to ask before each use if its stream is being captured."""
Free = list[Kept]


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

    def make(self, addresses: Sequence[int], stream: Any) -> None:
        """Launch on arrays at these addresses, with memory that is nobody else's meanwhile."""
        try:
            free = self._own.free[stream] if self._has_memory else self._free[stream]
            kept = free.pop()
        except (AttributeError, KeyError, IndexError):
            self._make_first(addresses, stream)
            return
        launch, move, has_to_ask = kept
        if has_to_ask and self._device.is_capturing(stream):
            free.append(kept)
            self._packed(addresses, stream)()
            return
        move(addresses)
        launch()
        free.append(kept)

    def _make_first(self, addresses: Sequence[int], stream: Any) -> None:
        launch = self._packed(addresses, stream)
        launch()  # what was packed under capture keeps its memory, for the recording
        has_to_ask = self._has_memory and getattr(launch, "is_recordable", True)
        if not (has_to_ask and self._device.is_capturing(stream)):
            self.free(stream).append((launch, launch.move, has_to_ask))

    def kept(self, addresses: Sequence[int], stream: Any) -> Callable[[], None]:
        """Pack what launches on arrays at these addresses for many times, as `make` does.

        With memory it is for the thread that asks, and shares that of the thread's others on
        the stream; in another thread, or under capture, it is `make`.
        """
        if not self._has_memory:
            return self._packed(addresses, stream)
        free, make = self.free(stream), partial(self.make, addresses, stream)
        if not free or not self._packer.shares_memory:
            return make
        other, _, has_to_ask = free[-1]
        owner, is_captured = get_ident(), self._device.is_capturing
        if has_to_ask and is_captured(stream):
            return make
        packed = self._packer(self._arrays_at(addresses), stream, cast("Any", other).memory)

        def launch() -> None:
            if get_ident() != owner or (has_to_ask and is_captured(stream)):
                make()
            else:
                packed()

        return launch

    def _packed(self, addresses: Sequence[int], stream: Any) -> MovableLaunch:
        return cast("MovableLaunch", self._packer(self._arrays_at(addresses), stream))
