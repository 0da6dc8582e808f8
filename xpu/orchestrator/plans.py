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

_CALLS: Final = 1021
_TURNS: Final = tuple(call * call % _CALLS < _CALLS // 32 for call in range(_CALLS))
"""Calls whose arrays are remembered: one in 32, scattered. To remember a set and to forget it
costs as much as to look at new arrays, and arrays that are fresh at every call get each other's
numbers, so that nothing tells them from ones that stay. The length is a prime, so that a set
that comes at every so many calls comes at its turn."""

Plan = tuple[Callable[[tuple[Any, ...], Any], bool], tuple[weakref.ref[Any], ...]]
"""What launches for inputs and result, unless one of them has moved; and the arrays."""


class Plans(dict[tuple[Any, ...], Plan]):
    """Plans by the numbers of inputs and result, and the stream.

    Attributes
    ----------
    turns
        Whether to remember the arrays of the next call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.turns = itertools.cycle(_TURNS)

    def remember(
        self,
        key: tuple[Any, ...],
        values: Sequence[Any],
        run: Callable[[tuple[Any, ...], Any], bool],
        forgotten: Callable[[], object] | None = None,
    ) -> bool:
        """Keep a plan until one of the values dies, and say so then; False if one cannot tell."""
        plans = weakref.ref(self)

        def forget(_dead: object) -> None:
            alive = plans()
            if alive is not None and alive.pop(key, None) is not None and forgotten is not None:
                forgotten()

        try:
            arrays = tuple(weakref.ref(value, forget) for value in values)
        except TypeError:  # an array that cannot be held weakly
            return False
        if len(self) >= _MOST_PLANS:
            self.clear()
        self[key] = (run, arrays)
        return True


def running(
    launch: Callable[[], None], moving: Sequence[tuple[int, int]], count: int
) -> Callable[[tuple[Any, ...], Any], bool]:
    """Return what launches when no array that may move has moved.

    Parameters
    ----------
    launch
        The packed launch.
    moving
        Place among inputs and result, and address, of each array whose memory may be
        exchanged under it.
    count
        How many inputs there are.
    """
    if not moving:

        def run_fixed(_inputs: tuple[Any, ...], _out: Any) -> bool:
            launch()
            return True

        return run_fixed
    if len(moving) == 2 and moving[1][0] == count:
        # Prepared weights, activations, result: a loop would cost 0.1 us more.
        (place, address), (_, end) = moving

        def run_two(inputs: tuple[Any, ...], out: Any) -> bool:
            if out.data_ptr() == end and inputs[place].data_ptr() == address:
                launch()
                return True
            return False

        return run_two

    def run(inputs: tuple[Any, ...], out: Any) -> bool:
        for place, address in moving:
            value = out if place == count else inputs[place]
            if value.data_ptr() != address:
                return False
        launch()
        return True

    return run
