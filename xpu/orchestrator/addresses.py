"""Where the arrays of a call lie, told without the device of arrays like those it took before.

To take an array costs a device tens of microseconds. Of one that is like an array that it took
(`MovableLaunch` says what that means) a few attributes are compared here, and its address is
read. What is not alike is never refused here: `Arguments` takes it, or says why not.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from xpu.orchestrator.weights import PreparedWeights
from xpu.spec import host_dtype

if TYPE_CHECKING:
    from xpu.orchestrator.arguments import Slot
    from xpu.spec import DeviceArray

_T = TypeVar("_T")
_Reader = Callable[[Any], int]
"""Gives the address of an array, 0 when it is not like the one that the reader was made of."""
Finder = Callable[[Sequence[Any]], list[int] | None]
"""Gives the addresses of inputs and result in the design's order.

None when one of them is not like one that was taken, is not where the kernel can read it, or is
written and overlaps another.
"""

# Source: NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED and NPY_ARRAY_WRITEABLE of ndarraytypes.h.
_READABLE: Final = 0x0001 | 0x0100
_WRITABLE: Final = 0x0400


class Addresses:
    """The addresses of the arrays of one bound kernel's calls.

    Parameters
    ----------
    slots
        The arguments in the design's order.
    place
        Which of them is the result, that a call gives last.
    alignments_bytes
        What each address must be a multiple of.

    Attributes
    ----------
    find
        What gives the addresses of a call; `learn` exchanges it.
    """

    def __init__(self, slots: Sequence[Slot], place: int, alignments_bytes: Sequence[int]) -> None:
        self._place = place
        self._wanted = self._turned(list(zip(slots, alignments_bytes, strict=True)))
        self._readers: list[dict[type, _Reader]] = [{} for _ in slots]
        self.find: Finder = _nothing_known

    def learn(self, values: Sequence[Any], arrays: Sequence[DeviceArray]) -> None:
        """Take note of what the device took for the arguments, both in the design's order."""
        values, arrays = self._turned(values), self._turned(arrays)
        sizes = []
        for (slot, alignment), readers, value, array in zip(
            self._wanted, self._readers, values, arrays, strict=True
        ):
            is_prepared = isinstance(value, PreparedWeights)
            sizes.append(array.shape[0] if is_prepared else slot.nbytes)
            try:
                reader = _reader(slot, alignment, value, array)
            except Exception:
                # It has not what its likes are known by: they are taken one by one.
                reader = None
            if reader is not None:
                readers[type(value)] = reader
        written = [at for at, (slot, _) in enumerate(self._wanted) if slot.is_written]
        if written == [2] == [self._place]:
            self.find = _of_three(self._readers, sizes)
        else:
            self.find = _of_any(self._readers, sizes, written, self._place)

    def _turned(self, each: Sequence[_T]) -> list[_T]:
        """Return things of the design's order in a call's, in which the result comes last."""
        return [*each[: self._place], *each[self._place + 1 :], each[self._place]]


def _nothing_known(_values: Sequence[Any]) -> None:
    """Leave all arrays to the device."""


def _of_any(
    each: Sequence[dict[type, _Reader]], sizes: Sequence[int], written: Sequence[int], place: int
) -> Finder:
    apart = [
        (at, other, sizes[at], sizes[other])
        for at in written
        for other in range(len(sizes))
        if other != at
    ]

    def find(values: Sequence[Any]) -> list[int] | None:
        try:
            found = [
                readers[type(value)](value) for readers, value in zip(each, values, strict=True)
            ]
        except Exception:
            # Another type, another number of arrays, or whatever an array says no with.
            return None
        for at, other, nbytes, other_bytes in apart:
            if found[at] < found[other] + other_bytes and found[other] < found[at] + nbytes:
                return None
        found.insert(place, found.pop())
        return None if 0 in found else found

    return find


def _of_three(each: Sequence[dict[type, _Reader]], sizes: Sequence[int]) -> Finder:
    """Return the same for two inputs and the result, in a third of the time."""
    read_first, read_second, read_result = each
    first_bytes, second_bytes, nbytes = sizes

    def find(values: Sequence[Any]) -> list[int] | None:
        try:
            a, b, out = values
            first, second = read_first[type(a)](a), read_second[type(b)](b)
            start = read_result[type(out)](out)
        except Exception:
            return None
        end = start + nbytes
        if (
            first
            and second
            and start
            and (end <= first or first + first_bytes <= start)
            and (end <= second or second + second_bytes <= start)
        ):
            return [first, second, start]
        return None

    return find


def _reader(slot: Slot, alignment: int, value: Any, array: DeviceArray) -> _Reader | None:
    import numpy as np

    if type(value) is PreparedWeights:
        return _of_prepared(value, alignment)
    if slot.preparer is not None:
        return None  # raw weights are repacked for each call
    step = math.lcm(alignment, host_dtype(slot.argument.dtype).itemsize)
    make = _of_numpy if type(value) is np.ndarray else _of_tensor
    reader = make(slot, step, value)
    # A device may take an array elsewhere than where it lies.
    return reader if reader(value) == array.address else None


def _of_prepared(like: PreparedWeights, step: int) -> _Reader:
    shape, code_hash, device = like.shape, like.code_hash, like.device

    def read(value: PreparedWeights) -> int:
        if value.code_hash == code_hash and value.device == device and value.shape == shape:
            address = value.array.address
            return 0 if address % step else address
        return 0

    return read


def _of_tensor(slot: Slot, step: int, like: Any) -> _Reader:
    dtype, device, shape = like.dtype, like.device, slot.shape
    has_gradient = getattr(like, "requires_grad", None)

    def read(value: Any) -> int:
        if (
            value.dtype is dtype
            and value.shape == shape
            and value.device == device
            and (has_gradient is None or value.requires_grad is has_gradient)
            and value.is_contiguous()
        ):
            address: int = value.data_ptr()
            return 0 if address % step else address
        return 0

    return read


def _of_numpy(slot: Slot, step: int, like: Any) -> _Reader:
    dtype, shape = like.dtype, slot.shape
    wanted = _READABLE | _WRITABLE if slot.is_written else _READABLE
    buffer, address_of = ctypes.c_char.from_buffer, ctypes.addressof

    def read(value: Any) -> int:
        flags = value.flags.num
        if value.dtype is dtype and value.shape == shape and flags & wanted == wanted:
            # A buffer tells in a fifth of the time, of memory that may be written.
            address: int = (
                address_of(buffer(value))
                if flags & _WRITABLE
                else value.__array_interface__["data"][0]
            )
            return 0 if address % step else address
        return 0

    return read
