"""Where the arrays of a call lie, told without the device of arrays like those it took before.

To take an array costs a device tens of microseconds. Of one that is like an array that it took
a few attributes are compared here, and its address is read. What is not alike, or lies where
the kernel cannot use it, is never refused here: `Arguments` takes it, or says why not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from xpu.orchestrator.readers import Guard, Reader, guard, reader
from xpu.orchestrator.weights import PreparedWeights
from xpu.spec import host_dtype

if TYPE_CHECKING:
    from xpu.orchestrator.arguments import Slot
    from xpu.spec import DeviceArray

_NEW_GUARD: Final = (True, *[False] * 31)
"""Which of the calls that a guard did not know gives the next one: to make one costs several
times what it saves, and some programs alternate."""

Found = tuple[int, ...]
"""Addresses of inputs and result in the design's order."""
Finder = Callable[..., Found | None]
"""Gives the addresses of a call's inputs and result, the result last.

None when one of them is not like one that was taken, is not where the kernel can read it, or is
written and overlaps another.
"""


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
        self._slots = slots
        self._place = place
        self._steps = [
            math.lcm(alignment, host_dtype(slot.argument.dtype).itemsize)
            for slot, alignment in zip(slots, alignments_bytes, strict=True)
        ]
        self._readers: list[dict[type, Reader]] = [{} for _ in slots]
        self._is_like: Guard | None = None
        self.find: Finder = _nothing_known

    def learn(self, values: Sequence[Any], arrays: Sequence[DeviceArray]) -> None:
        """Take note of what the device took for the arguments, both in the design's order."""
        made = [reader(*each) for each in zip(self._slots, values, arrays, strict=True)]
        for readers, one, value in zip(self._readers, made, values, strict=True):
            if one is not None:
                readers[type(value)] = one
        sizes = [
            array.shape[0] if isinstance(value, PreparedWeights) else slot.nbytes
            for slot, value, array in zip(self._slots, values, arrays, strict=True)
        ]
        written = [at for at, slot in enumerate(self._slots) if slot.is_written]
        if written == [2] == [self._place]:
            if None not in made[1:]:
                self._is_like = guard(*values[1:]) or self._is_like
            kind = values[0].kind if isinstance(values[0], PreparedWeights) else None
            self.find = _of_two(self._readers, self._steps, sizes, kind, self._is_like)
        else:
            self.find = _of_any(self._readers, self._steps, sizes, written, self._place)


def _nothing_known(*_values: Any) -> None:
    """Leave all arrays to the device."""


def _of_any(
    each: Sequence[dict[type, Reader]],
    steps: Sequence[int],
    sizes: Sequence[int],
    written: Sequence[int],
    place: int,
) -> Finder:
    turned = [*each[:place], *each[place + 1 :], each[place]]
    apart = [(at, other) for at in written for other in range(len(sizes)) if other != at]

    def find(*values: Any) -> Found | None:
        try:
            found = [
                readers[type(value)](value) for readers, value in zip(turned, values, strict=True)
            ]
        except Exception:
            # Another type, or whatever an array says no with.
            return None
        found.insert(place, found.pop())
        for address, step in zip(found, steps, strict=True):
            if not address or address % step:
                return None
        for at, other in apart:
            if -sizes[at] < found[at] - found[other] < sizes[other]:
                return None
        return tuple(found)

    return find


def _of_two(
    each: Sequence[dict[type, Reader]],
    steps: Sequence[int],
    sizes: Sequence[int],
    kind: object,
    is_like: Guard | None,
) -> Finder:
    """Return the same for two inputs and the result, in a third of the time."""
    read_first, read_second, read_result = each
    first_step, second_step, step = steps
    low = _low_bits(math.lcm(*steps))
    first_bytes, second_bytes, before = sizes[0], sizes[1], -sizes[2]
    prepared, turns = PreparedWeights, itertools.cycle(_NEW_GUARD)

    def find(a: Any, b: Any, out: Any) -> Found | None:
        nonlocal is_like
        try:
            is_prepared = type(a) is prepared and a.kind is kind
            first = a.array.address if is_prepared else read_first[type(a)](a)
            if is_like is not None and is_like(b, out):
                second, start = b.data_ptr(), out.data_ptr()
            else:
                second, start = read_second[type(b)](b), read_result[type(out)](out)
                if is_like is not None and second and start and next(turns):
                    is_like = guard(b, out) or is_like
        except Exception:
            return None
        if not (first and second and start) or before < start - second < second_bytes:
            return None
        if (first | second | start) & low and (
            first % first_step or second % second_step or start % step
        ):
            return None
        # Prepared weights lie in memory that no caller's array does.
        if not is_prepared and before < start - first < first_bytes:
            return None
        return first, second, start

    return find


def _low_bits(step: int) -> int:
    """Return the bits that are 0 in each multiple of a step, and tell it; else all bits.

    What is a multiple of every step, as nearly all arrays are, is then seen in one look.
    """
    return step - 1 if step & (step - 1) == 0 else -1
