"""Sets of arrays that a bound kernel has been called with, and the launch for each.

A set is known by the numbers (``id``) of its arrays and the stream. Arrays are held weakly:
what is kept for a set goes when one of its arrays does, before its number can be another's.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

_MOST_PLANS: Final = 1 << 16
"""Sets of living arrays that one bound kernel remembers: the experts of all layers of a
mixture share one. Past that it forgets them all, and looks anew at what is still used."""

_CALLS: Final = 8191
_TURNS: Final = tuple(call * call % _CALLS < _CALLS // 256 for call in range(_CALLS))
"""Calls whose arrays are remembered: the first, and one in 220, scattered. To remember a set and
to forget it costs as much as ten calls with new arrays, and arrays that are fresh at every call
get each other's numbers, so that nothing tells them from ones that stay. The length is a prime,
so that a set that comes at every so many calls comes at its turn."""

Key = tuple[Any, ...]
"""Numbers of inputs and result, and the stream."""
Moving = tuple[int, Callable[[Any], int], int]
"""Place among inputs and result, what tells the address, and the address when it was taken."""
Look = tuple[Callable[[Any], Any], Any, Callable[[Any], Any], Any]
"""What is asked of the last input, and what it said; the same of the result."""
Plan = tuple[Callable[[], None], Callable[[Any], Any], Any, Callable[[Any], Any], Any]
"""A launch, and a `Look`: it is made while both say the same. Whoever has a plan does that
himself; a call of a function that does would cost 0.1 us."""


class Plans(dict[Key, Plan]):
    """What launches, and the arrays for which it does.

    Attributes
    ----------
    turns
        Whether to remember the arrays of the next call.
    arrays
        The arrays of each key, held weakly.
    """

    def __init__(self) -> None:
        super().__init__()
        # Not `cycle`, which would keep a copy for each kernel.
        self.turns = itertools.chain.from_iterable(itertools.repeat(_TURNS))
        self.arrays: dict[Key, tuple[weakref.ref[Any], ...]] = {}

    def remember(
        self,
        key: Key,
        values: Sequence[Any],
        moving: Sequence[Moving],
        pack: Callable[[], Callable[[], None]],
    ) -> None:
        """Keep what launches for these values until one of them dies.

        Parameters
        ----------
        values
            Inputs and result. Where one cannot be held weakly, nothing is kept.
        moving
            The arrays whose memory may be exchanged under them.
        pack
            Packs the launch, when the values come again: most never do.
        """
        plans = weakref.ref(self)

        def forget(_dead: object) -> None:
            if (alive := plans()) is not None:
                alive.forget(key)

        def launch() -> None:
            packed = pack()
            if (alive := plans()) is not None and key in alive:
                alive._set(key, (packed, *look))
            packed()

        try:
            arrays = tuple(weakref.ref(value, forget) for value in values)
        except TypeError:
            return
        look = _look(arrays, values, moving)
        if len(self) >= _MOST_PLANS:
            for each in list(self):
                self.forget(each)
        self.arrays[key] = arrays
        self._set(key, (launch, *look))

    def forget(self, key: Key) -> None:
        """Launch for a key no more."""
        self.arrays.pop(key, None)
        self.pop(key, None)

    def _set(self, key: Key, plan: Plan) -> None:
        self[key] = plan
        if key not in self.arrays:
            # Another thread forgot it meanwhile: nothing would when its arrays die.
            self.pop(key, None)


def _look(
    arrays: Sequence[weakref.ref[Any]], values: Sequence[Any], moving: Sequence[Moving]
) -> Look:
    """Return what tells that no array that may move has moved, while all are alive."""
    found = {place: (pointer, address) for place, pointer, address in moving}
    *inputs, result = range(len(values))
    of_result, end = found.pop(result, (id, id(values[result])))
    if not inputs:
        return _nothing, None, of_result, end
    last = inputs[-1]
    of_last, start = found.pop(last, (id, id(values[last])))
    if not found:
        return of_last, start, of_result, end
    others = [(pointer, arrays[place], address) for place, (pointer, address) in found.items()]

    def of_all(value: Any) -> Any:
        if all(pointer(ref()) == address for pointer, ref, address in others):
            return of_last(value)
        return None

    return of_all, start, of_result, end


def _nothing(_value: object) -> None:
    """Stand for the last input of a design without any."""
