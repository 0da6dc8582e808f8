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
from types import SimpleNamespace
from typing import Any, Final, cast

from xpu.choice import Packer
from xpu.spec import Device, DeviceArray, MovableLaunch

_MOST_STREAMS: Final = 64
"""Streams of one thread for which launches are kept; past that all are packed anew. A key holds
the stream object, so that its number does not become another's while its launches are kept."""

Free = list[MovableLaunch]


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
        self._kept: Any = threading.local() if packer.has_memory else SimpleNamespace()

    def free(self, stream: Any) -> Free:
        """Return the launches for a stream that nobody is making.

        Raises
        ------
        TypeError
            The stream cannot be hashed.
        """
        try:
            found: Free = self._kept.free[stream]
        except (AttributeError, KeyError):
            kept = self._kept.__dict__.setdefault("free", {})
            if len(kept) >= _MOST_STREAMS:
                kept.clear()
            found = kept.setdefault(stream, [])
        return found

    def take(self, addresses: list[int], stream: Any, free: Free) -> MovableLaunch:
        """Return a launch on arrays at these addresses, out of the list."""
        try:
            launch = free.pop()
        except IndexError:
            return self._packed(addresses, stream)
        launch.move(addresses)
        return launch

    def make(self, addresses: list[int], stream: Any) -> None:
        """Launch on arrays at these addresses, with memory that is nobody else's meanwhile."""
        free = self.free(stream)
        kept: MovableLaunch | None = None
        try:
            launch = kept = free.pop()
        except IndexError:
            launch = self._packed(addresses, stream)
        if getattr(launch, "is_recordable", True) and self._device.is_capturing(stream):
            if kept is not None:
                free.append(kept)
                # What is packed now keeps its memory, for the recording.
                launch = self._packed(addresses, stream)
            launch()
            return
        if kept is not None:
            kept.move(addresses)
        launch()
        free.append(launch)

    def _packed(self, addresses: list[int], stream: Any) -> MovableLaunch:
        return cast("MovableLaunch", self._packer(self._arrays_at(addresses), stream))
