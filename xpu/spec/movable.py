"""A packed launch that can be given other arrays: what `Device.launcher` may return.

Packing costs many times what a launch does, and a program that makes fresh arrays for each
call would pay it each time. The core keeps launches that can be moved and moves one, the
caller's addresses in it, instead of packing.
"""

from __future__ import annotations

from typing import Protocol


class Items(Protocol):
    """Numbers of which one at a time can be replaced, as in a list, an array, a memoryview."""

    def __len__(self) -> int: ...

    def __setitem__(self, place: int, number: int, /) -> None: ...


class MovableLaunch(Protocol):
    """A packed launch that has `addresses`. One without is packed anew for other arrays.

    A backend that offers it makes three promises. A call reads the addresses before it
    returns, so that the launch may be moved while the work is still queued, or recorded. The
    addresses are all that a launch needs of its arrays. And an array that `import_array` took
    where it lies (at its ``data_ptr()``, or numpy's address) stands for all of its type,
    element type, shape, device and ``requires_grad`` that are contiguous, aligned and, where
    it matters, writable: the core takes those without asking, or what asking does besides.

    Attributes
    ----------
    addresses
        Where its arrays begin, one for each buffer as packed. Assign an item to give the launch
        another array from the next call on. The object stays the same for as long as the
        launch. Nobody assigns while a call is under way, and nothing is checked.
    is_recordable
        Whether the stream that it was packed for can be captured at all (see
        `Device.is_capturing`); where it is False nobody asks before each launch. It may be
        left out, which means True.
    """

    addresses: Items
    is_recordable: bool

    def __call__(self) -> None:
        """Make the launch."""
