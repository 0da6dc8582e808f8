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
Run = Callable[..., bool]
"""Launches for inputs and result, given one by one, unless one of them has moved."""


class Plans(dict[Key, Run]):
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
            As `running` takes it.
        pack
            Packs the launch, when the values come again: most never do.
        """
        plans, count = weakref.ref(self), len(values) - 1

        def forget(_dead: object) -> None:
            if (alive := plans()) is not None:
                alive.forget(key)

        def launch() -> None:
            packed = pack()
            if (alive := plans()) is not None and key in alive:
                alive[key] = running(packed, moving, count)
            packed()

        try:
            arrays = tuple(weakref.ref(value, forget) for value in values)
        except TypeError:
            return
        if len(self) >= _MOST_PLANS:
            for each in list(self):
                self.forget(each)
        self.arrays[key] = arrays
        self[key] = running(launch, moving, count)

    def forget(self, key: Key) -> None:
        """Launch for a key no more."""
        self.arrays.pop(key, None)
        self.pop(key, None)


def running(launch: Callable[[], None], moving: Sequence[Moving], count: int) -> Run:
    """Return what launches when no array that may move has moved.

    Parameters
    ----------
    launch
        The packed launch.
    moving
        The arrays whose memory may be exchanged under them.
    count
        How many inputs there are.
    """
    if not moving:

        def run_fixed(*_values: Any) -> bool:
            launch()
            return True

        return run_fixed
    if count == 2 and [place for place, _, _ in moving] == [1, 2]:
        # Prepared weights, activations, result: a loop would cost 0.1 us more.
        (_, of_x, address), (_, of_out, end) = moving

        def run_two(_weights: Any, x: Any, out: Any) -> bool:
            if of_out(out) == end and of_x(x) == address:
                launch()
                return True
            return False

        return run_two

    def run(*values: Any) -> bool:
        for place, pointer, address in moving:
            if pointer(values[place]) != address:
                return False
        launch()
        return True

    return run
