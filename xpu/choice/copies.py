"""Copies of a launch's inputs, and launches on them, so that a rotation reads cold memory.

A rotation of a small problem has thousands of copies, of which a trial goes round a few hundred:
both are described, and packed, when they are first taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, overload

import attrs

from xpu.choice.packing import Packer
from xpu.spec import Argument, Device, DeviceArray

_ALIGNMENT_BYTES: Final = 256
"""Distance between copies is a multiple of this: the widest alignment that a load asks for."""

Buffers = Sequence[DeviceArray]


class BufferSets:
    """A number of sets of buffers: the given one, and copies of what is read or updated.

    What is only written is shared by all sets: a cold launch is one that reads cold memory.
    Each argument's copies lie in one allocation, and are made at once: what has just been
    written lies in a cache.
    """

    def __init__(
        self, device: Device, arguments: Sequence[Argument], buffers: Buffers, count: int
    ) -> None:
        self._count = count
        self._columns = [
            _shared(buffer) if argument.access == "write" else _copied(device, buffer, count)
            for argument, buffer in zip(arguments, buffers, strict=True)
        ]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Buffers:
        place = range(self._count)[index]  # past the last one lies another's memory
        return [column(place) for column in self._columns]


class Rotation(Sequence[Callable[[], None]]):
    """Launches of one arm on sets of buffers, for a stream, each packed when it is first taken.

    What runs before a launch works in memory that all of them share, as in a program, where it
    is the memory of the launch before: they run one after another.
    """

    def __init__(self, pack: Packer, sets: BufferSets, stream: Any) -> None:
        self._pack = pack
        self._sets = sets
        self._stream = stream
        self._made: dict[int, Callable[[], None]] = {}
        self._memory: Sequence[DeviceArray] = ()

    def __len__(self) -> int:
        return len(self._sets)

    @overload
    def __getitem__(self, index: int) -> Callable[[], None]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Callable[[], None]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        place = range(len(self))[index]
        if isinstance(place, range):
            return [self[each] for each in place]
        made = self._made.get(place)
        if made is None:
            made = self._made[place] = self._pack(self._sets[place], self._stream, self._memory)
            if self._pack.shares_memory:
                self._memory = getattr(made, "memory", ())
        return made


def _shared(buffer: DeviceArray) -> Callable[[int], DeviceArray]:
    return lambda _: buffer


def _copied(device: Device, buffer: DeviceArray, count: int) -> Callable[[int], DeviceArray]:
    """Return what gives a buffer, or one of its copies."""
    if count == 1:
        return _shared(buffer)
    stride, copies = -(-buffer.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES, count - 1
    slab = device.allocate(stride * copies)

    def part(start: int, nbytes: int) -> DeviceArray:
        return DeviceArray(slab.address + start * stride, (nbytes,), "uint8", slab)

    device.copy(attrs.evolve(buffer, shape=(buffer.nbytes,), dtype="uint8"), part(0, buffer.nbytes))
    done = 1
    while done < copies:  # twice as many each time, and not thousands of small ones
        more = min(done, copies - done)
        device.copy(part(0, more * stride), part(done, more * stride))
        done += more

    def copy(index: int) -> DeviceArray:
        if index == 0:
            return buffer
        return attrs.evolve(buffer, address=slab.address + (index - 1) * stride, owner=slab)

    return copy
