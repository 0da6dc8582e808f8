"""The arrays of a call: taken without a copy, and what does not fit refused by name.

A bound kernel asks here at the first call with a set of arrays; nothing is launched here
but the repacking of weights that were given raw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from xpu.errors import XpuLaunchException
from xpu.orchestrator.plans import Moving
from xpu.orchestrator.weights import PreparedWeights, Preparer, imported
from xpu.spec import Argument, Device, DeviceArray, host_dtype


@attrs.frozen
class Slot:
    """One argument as a bound kernel wants it; `nbytes` is that of the array as given."""

    argument: Argument
    shape: tuple[int, ...]
    nbytes: int
    preparer: Preparer | None

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it."""
        return self.argument.access != "read"


def result_place(arguments: Sequence[Argument]) -> int:
    """Return the place of the result among a design's arguments: the last that is written."""
    written = [place for place, each in enumerate(arguments) if each.access != "read"]
    return written[-1] if written else len(arguments) - 1


class Arguments:
    """The arguments of a design on one problem; `where` begins every message.

    Attributes
    ----------
    slots
        They, in the design's order.
    place
        Which of them is the result.
    """

    def __init__(
        self,
        where: str,
        device: Device,
        arguments: Sequence[Argument],
        shapes: Mapping[str, tuple[int, ...]],
        preparer: Preparer | None,
    ) -> None:
        import numpy as np

        self._where = where
        self._device = device
        self.place = result_place(arguments)
        self._fixed = (np.ndarray, PreparedWeights, DeviceArray)
        self.slots = tuple(
            Slot(
                argument,
                tuple(shapes[argument.name]),
                math.prod(shapes[argument.name]) * host_dtype(argument.dtype).itemsize,
                preparer if preparer and preparer.argument.name == argument.name else None,
            )
            for argument in arguments
        )

    def ordered(self, inputs: tuple[Any, ...], out: Any) -> list[Any]:
        """Return what a call was given in the design's order.

        Raises
        ------
        XpuLaunchException
            There are too few or too many.
        """
        if len(inputs) != len(self.slots) - 1:
            names = [slot.argument.name for slot in self.slots]
            names.pop(self.place)
            raise XpuLaunchException(
                f"{self._where}: takes {', '.join(names)} and out=, given {len(inputs)} arrays "
                "and out="
            )
        return [*inputs[: self.place], out, *inputs[self.place :]]

    def take(self, values: Sequence[Any]) -> list[DeviceArray]:
        """Return the arrays of a call, weights as they were given.

        Raises
        ------
        XpuLaunchException
            One does not fit, or what is written overlaps another.
        """
        pairs = list(zip(self.slots, values, strict=True))
        arrays = [self._taken(slot, value) for slot, value in pairs]
        sizes = [
            array.shape[0] if isinstance(value, PreparedWeights) else slot.nbytes
            for (slot, value), array in zip(pairs, arrays, strict=True)
        ]
        self._refuse_overlap(arrays, sizes)
        return arrays

    def needs_repacking(self, values: Sequence[Any]) -> bool:
        """Whether weights of a call were given raw."""
        return any(
            slot.preparer is not None and not isinstance(value, PreparedWeights)
            for slot, value in zip(self.slots, values, strict=True)
        )

    def repacked(self, values: Sequence[Any], arrays: Sequence[DeviceArray]) -> list[DeviceArray]:
        """Return the arrays of a call with raw weights repacked."""
        made = list(arrays)
        for place, (slot, value) in enumerate(zip(self.slots, values, strict=True)):
            if slot.preparer is not None and not isinstance(value, PreparedWeights):
                slot.preparer.warn_once()
                made[place] = slot.preparer.prepare(value).array
        return made

    def at(self, addresses: Sequence[int]) -> list[DeviceArray]:
        """Describe arrays of a call that begin at these addresses; it keeps nothing alive."""
        return [
            DeviceArray(address, slot.shape, slot.argument.dtype, None)
            for slot, address in zip(self.slots, addresses, strict=True)
        ]

    def movable(self, values: Sequence[Any]) -> tuple[Moving, ...] | None:
        """Return the arrays whose memory may be exchanged under them.

        None when one of them does not tell its address at little cost: it has to be taken
        anew at every call.
        """
        found: list[Moving] = []
        for place, value in enumerate(values):
            if isinstance(value, self._fixed):
                continue
            # Of the type: that keeps no array alive, and saves a look-up at every call.
            pointer = getattr(type(value), "data_ptr", None)
            if pointer is None:
                return None
            found.append((place, pointer, pointer(value)))
        return tuple(found)

    def _taken(self, slot: Slot, value: Any) -> DeviceArray:
        name = slot.argument.name
        if isinstance(value, PreparedWeights):
            self._check_prepared(slot, value)
            array, shape = value.array, value.shape
        else:
            array = imported(
                self._where, slot.argument, self._device, value, writable=slot.is_written
            )
            shape = array.shape
        if tuple(shape) != slot.shape:
            raise XpuLaunchException(
                f"{self._where}: argument {name!r} has shape {slot.shape}, given {tuple(shape)}"
            )
        return array

    def _check_prepared(self, slot: Slot, value: PreparedWeights) -> None:
        if slot.preparer is None:
            raise XpuLaunchException(
                f"{self._where}: argument {slot.argument.name!r} is an array, not prepared weights"
            )
        slot.preparer.check(self._where, value)

    def _refuse_overlap(self, arrays: Sequence[DeviceArray], sizes: Sequence[int]) -> None:
        spans = [
            (slot, array.address, array.address + size)
            for slot, array, size in zip(self.slots, arrays, sizes, strict=True)
            if size
        ]
        for written, start, end in spans:
            if not written.is_written:
                continue
            for other, other_start, other_end in spans:
                if other is not written and start < other_end and other_start < end:
                    raise XpuLaunchException(
                        f"{self._where}: {written.argument.name!r} is written and overlaps "
                        f"{other.argument.name!r}"
                    )
