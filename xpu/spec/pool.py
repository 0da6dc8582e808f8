"""Memory of a device: plain allocations, some of which are kept to be used again.

Backends make one of what their driver gives. Why a list over plain allocations, and not a
driver's stream-ordered pools: an array may be in use on any stream when its owner dies, a
finalizer cannot know which, and a pool hands memory out again as soon as the one stream that it
was freed on has come that far. Here memory that was given back waits until the whole device has
been waited for, which the core does after every job. A finalizer makes no call that waits for the
device, unless more was given back than is kept.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from xpu.errors import XpuLaunchException
from xpu.spec.device import DeviceArray

_LEAST_BYTES: Final = 512
_PAGE_BYTES: Final = 2 << 20
"""Larger allocations come in whole pieces of this size, by which drivers map memory. Source: the
least granularity of mapping that drivers of GPUs name, on parts since 2017."""
_KEPT_SHARE: Final = 64
"""One part in this many of the device's memory is kept at most: the program has other users
of it, which this must not starve."""
_MOST_KEPT: Final = 128
_Kept = tuple[int, int]
"""Address and size of memory that nobody has."""


class Block:
    """One allocation; the memory is given back when this object dies."""

    __slots__ = ("__weakref__", "address", "index")

    def __init__(self, address: int, index: int) -> None:
        self.address = address
        self.index = index


class Pool(ABC):
    """Allocations on one device.

    Parameters
    ----------
    index
        Number of the device.
    memory_bytes
        Memory of the device; decides how much is kept.
    """

    def __init__(self, index: int, memory_bytes: int) -> None:
        self._index = index
        self._most_bytes = memory_bytes // _KEPT_SHARE
        # A finalizer may run in a thread that holds the lock: it leaves what it has in the queue
        # and never waits.
        self._lock = threading.Lock()
        self._incoming: deque[_Kept] = deque()
        self._returned: list[_Kept] = []
        self._ready: list[_Kept] = []

    @abstractmethod
    def obtain(self, size: int, what: str) -> int:
        """Return the address of fresh memory of `size` bytes.

        Raises
        ------
        XpuLaunchException
            `what`, and why, in the driver's words.
        """

    @abstractmethod
    def release(self, addresses: Sequence[int]) -> None:
        """Give memory back, waiting for whatever uses it; finalizers call it, it never raises."""

    @abstractmethod
    def is_final(self, error: XpuLaunchException) -> bool:
        """Whether memory that is given back could not help against an error of `obtain`."""

    def allocate(self, nbytes: int) -> DeviceArray:
        """Return memory as an uint8 array, aligned to 256 bytes; what is in it is anything.

        Raises
        ------
        XpuLaunchException
            There is not enough.
        """
        size = _rounded(nbytes)
        address = self._kept(size)
        if address is None:
            address = self._fresh(size, nbytes)
        block = Block(address, self._index)
        end = weakref.finalize(block, self._give_back, address, size)
        end.atexit = False  # the driver frees everything when the process ends
        return DeviceArray(address, (nbytes,), "uint8", block)

    def returned(self) -> Sequence[_Kept]:
        """Return what was given back so far, for `settle`."""
        with self._lock:
            self._take_in()
            return tuple(self._returned)

    def settle(self, returned: Sequence[_Kept]) -> None:
        """Say that the device has been waited for since `returned` was asked."""
        # By identity: meanwhile an address may have been freed, handed out and given back anew.
        waited = {id(kept) for kept in returned}
        with self._lock:
            self._ready += [kept for kept in self._returned if id(kept) in waited]
            self._returned = [kept for kept in self._returned if id(kept) not in waited]

    def trim(self) -> None:
        """Free all that is kept."""
        with self._lock:
            kept = self._emptied()
        self._free(kept)

    def close(self) -> None:
        """Keep nothing from now on; arrays that are alive stay valid."""
        self._most_bytes = 0
        kept: Sequence[_Kept] = ()
        if self._lock.acquire(blocking=False):  # a finalizer calls it, too
            try:
                kept = self._emptied()
            finally:
                self._lock.release()
        self._free(kept)

    def _kept(self, size: int) -> int | None:
        with self._lock:
            for place, (address, its_size) in enumerate(self._ready):
                if its_size == size:
                    del self._ready[place]
                    return address
        return None

    def _fresh(self, size: int, nbytes: int) -> int:
        what = f"{nbytes} bytes of the memory of device {self._index} cannot be had"
        try:
            return self.obtain(size, what)
        except XpuLaunchException as error:
            if self.is_final(error):
                raise
        self.trim()  # what is kept may be all that is missing
        return self.obtain(size, what)

    def _give_back(self, address: int, size: int) -> None:
        """Take memory back; a finalizer."""
        if size > self._most_bytes:
            self._free(((address, size),))
            return
        self._incoming.append((address, size))
        # Whoever holds the lock, or comes next, finds it there.
        if self._lock.acquire(blocking=False):
            try:
                self._take_in()
                surplus = self._surplus()
            finally:
                self._lock.release()
            self._free(surplus)

    def _emptied(self) -> Sequence[_Kept]:
        """Take out all that is kept. The lock is held."""
        self._take_in()
        kept = self._ready + self._returned
        self._ready, self._returned = [], []
        return kept

    def _take_in(self) -> None:
        """Sort in what finalizers left. The lock is held."""
        while self._incoming:
            self._returned.append(self._incoming.popleft())

    def _surplus(self) -> Sequence[_Kept]:
        """Take out what is more than may be kept, the oldest first. The lock is held."""
        held = self._ready + self._returned
        left, count = sum(size for _, size in held), 0
        while len(held) - count > _MOST_KEPT or left > self._most_bytes:
            left -= held[count][1]
            count += 1
        ready = len(self._ready)
        del self._ready[:count]
        del self._returned[: max(count - ready, 0)]
        return held[:count]

    def _free(self, kept: Sequence[_Kept]) -> None:
        if kept:
            self.release([address for address, _ in kept])


def _rounded(nbytes: int) -> int:
    """Return a size that others are likely to ask for, too: a power of two, or whole pages."""
    if nbytes <= _PAGE_BYTES:
        return max(_LEAST_BYTES, 1 << max(nbytes - 1, 0).bit_length())
    return -(-nbytes // _PAGE_BYTES) * _PAGE_BYTES


def owner_of(array: DeviceArray) -> Any:
    """Return what holds the memory of an array, or of the allocation that it is a part of."""
    owner = array.owner
    while isinstance(owner, DeviceArray):
        owner = owner.owner
    return owner
