"""The memory in which blocks run: stacks of fibres, shared memory, and what is known of it.

There is one arena in a process, and one launch at a time in it. It grows to the largest
launch and serves all others again and again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from xpu.errors import XpuLaunchException

if TYPE_CHECKING:
    from numpy.typing import NDArray

STACK_BYTES: Final = 128 << 10
"""A stack and, below it, its guard."""
_GUARD_BYTES: Final = 64 << 10
"""Memory that may not be touched. Wider than the largest frame, so that none steps over it."""
_LINE_BYTES: Final = 64


class Arena:
    """Memory for one launch at a time; who holds `lock` may use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._threads = 0
        self._stacks: mmap.mmap | None = None
        self._areas: dict[str, NDArray[np.uint8]] = {}

    def stacks(self, threads: int) -> int:
        """Return the address of a stack for each thread."""
        if threads > self._threads:
            # Private: a forked process launches at the same time, on stacks of its own.
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            fresh = mmap.mmap(-1, threads * STACK_BYTES, flags=private)
            address = _address(fresh)
            system = ctypes.CDLL(None, use_errno=True)
            for index in range(threads):
                place = ctypes.c_void_p(address + index * STACK_BYTES)
                if system.mprotect(place, ctypes.c_size_t(_GUARD_BYTES), 0):
                    cause = os.strerror(ctypes.get_errno())
                    raise XpuLaunchException(f"{threads} stacks cannot be had: {cause}")
            self._stacks, self._threads = fresh, threads
        assert self._stacks is not None
        return _address(self._stacks)

    def area(self, name: str, nbytes: int, *, is_cleared: bool = False) -> int:
        """Return the address of at least `nbytes` bytes, aligned to a cache line."""
        area = self._areas.get(name)
        if area is None or area.nbytes < nbytes + _LINE_BYTES:
            area = self._areas[name] = np.zeros(nbytes + _LINE_BYTES, np.uint8)
        address = area.ctypes.data
        skipped = -address % _LINE_BYTES
        if is_cleared:
            area[skipped : skipped + nbytes] = 0
        return address + skipped


def _address(area: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


ARENA: Final = Arena()


def _after_fork() -> None:
    # The lock may have been held by a thread that the child does not have.
    ARENA.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
