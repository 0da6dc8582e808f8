"""What a call of a bound kernel does: with arrays seen before, with new ones, with refused ones.

Arrays that were seen often are found in one dictionary. New arrays like those that were taken
before get a packed launch moved to them. All others are taken by the device and checked, and
what does not fit is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from xpu.choice import Packer, on
from xpu.errors import XpuLaunchException
from xpu.model import Problem
from xpu.orchestrator.addresses import Addresses, Found
from xpu.orchestrator.arguments import Arguments
from xpu.orchestrator.launches import Launches
from xpu.orchestrator.plans import Key, Plans
from xpu.spec import Device, DeviceArray

ABSENT: Final = object()
"""Stands for an input that was not given, where a function has a name for it."""


def given(*inputs: Any) -> list[Any]:
    """Return the inputs of a call that were given."""
    return [each for each in inputs if each is not ABSENT]


class Calls:
    """Calls of one member on one problem.

    Parameters
    ----------
    family, problem
        Begin every message.
    """

    def __init__(
        self,
        family: str,
        problem: Problem,
        device: Device,
        packer: Packer,
        arguments: Arguments,
    ) -> None:
        self._family = family
        self._where = f"{family} {problem.key}"
        self._is_empty = 0 in problem.sizes.values()
        self._device = device
        self._packer = packer
        self._arguments = arguments
        slots = arguments.slots
        self._addresses = Addresses(slots, arguments.place, packer.alignments_bytes(len(slots)))
        self._launches = Launches(device, packer, arguments.at)
        self._is_movable: bool | None = None  # until the first launch is packed
        self.plans = Plans()
        # What a call with new arrays looks up, one step each.
        self._make, self._turns = self._launches.making(), self.plans.turns

    def call(self, *inputs: Any, out: Any, stream: Any = None) -> Any:
        """Launch on arrays, and return `out`.

        Parameters
        ----------
        inputs
            The arguments that are read, in the design's order: numpy arrays, DLPack arrays,
            or weights from `Orchestrator.prepare`.
        out
            The array that is written. It may not overlap an input.
        stream
            Where to queue the work, on a device that has streams.

        Raises
        ------
        XpuLaunchException
            An array has the wrong shape or element type, is not contiguous, or cannot be
            reached from the device. Nothing was launched.

        Notes
        -----
        The same objects are not looked at again once they were given a few times: an array
        whose shape, element type or memory was exchanged in place (``ndarray.resize`` without
        its check), or that was made read-only since, is launched on as it was. Of a tensor with
        ``data_ptr()`` the address is compared at every call; another DLPack array is taken anew
        at every call.
        """
        values = (*inputs, out)
        key = (*map(id, values), stream)
        try:
            plan = self.plans.get(key)
        except TypeError:  # the stream cannot be hashed
            self.first(None, values, stream)
            return out
        if plan is not None:
            launch, of_last, start, of_result, end = plan
            if of_result(out) == end and of_last(inputs[-1] if inputs else None) == start:
                launch()
                return out
        self.first(key, values, stream)
        return out

    def direct(self) -> Callable[..., Any]:
        """Return `call` as a function of two inputs, which almost all designs have.

        It looks little up by name and packs no arguments: that saves 0.2 us. For new arrays it
        does what `first` does, in a call less.
        """
        if len(self._arguments.slots) != 3:
            return self.call
        get, call = self.plans.get, self.call

        def direct(
            first: Any = ABSENT,
            second: Any = ABSENT,
            /,
            *others: Any,
            out: Any,
            stream: Any = None,
        ) -> Any:
            key = (id(first), id(second), id(out), stream)
            try:
                plan = get(key)
            except TypeError:
                return call(*given(first, second, *others), out=out, stream=stream)
            if plan is not None and not others:
                launch, of_second, start, of_result, end = plan
                if of_result(out) == end and of_second(second) == start:
                    launch()
                    return out
            if others or second is ABSENT:
                return call(*given(first, second, *others), out=out, stream=stream)
            addresses = self._addresses.find(first, second, out)
            if addresses is None:
                self.first(key, (first, second, out), stream)
                return out
            self._make(addresses, stream)
            if next(self._turns):
                self._remember(key, (first, second, out), addresses, stream)
            return out

        return direct

    def first(self, key: Key | None, values: tuple[Any, ...], stream: Any) -> None:
        """Launch on inputs and result that are not remembered.

        `key` is what they would be by; None for a stream that cannot be hashed.
        """
        is_whole = len(values) == len(self._arguments.slots)
        addresses = self._addresses.find(*values) if is_whole else None
        if addresses is None or key is None:
            taken = self._taken(key, values, stream)  # it may own memory: held while launching
            if taken is None or key is None:
                return
            addresses = tuple(array.address for array in taken)
        self._make(addresses, stream)
        if next(self._turns):
            self._remember(key, values, addresses, stream)

    def _taken(
        self, key: Key | None, values: tuple[Any, ...], stream: Any
    ) -> list[DeviceArray] | None:
        """Have the device take the arrays; None when all is done, the launch included."""
        arguments = self._arguments
        ordered = arguments.ordered(values[:-1], values[-1])
        taken = arguments.take(ordered)
        if self._is_empty:
            return None  # there is nothing to launch
        if arguments.needs_repacking(ordered):
            self._launch_raw(ordered, taken, stream)
            return None
        if self._is_movable and key is not None:
            self._packer.refuse_crooked(taken)
            self._addresses.learn(ordered, taken)
            return taken
        launch = self._packer(taken, stream)
        launch()
        self._is_movable = on(launch) is not None
        if self._is_movable:
            self._addresses.learn(ordered, taken)
        elif key is not None:
            self._keep(key, values, lambda: launch)
        return None

    def _launch_raw(self, values: Sequence[Any], taken: Sequence[DeviceArray], stream: Any) -> None:
        """Launch on raw weights, repacked for this call."""
        if self._device.is_capturing(stream):
            raise XpuLaunchException(
                f"{self._where}: the stream is being captured, and raw weights are repacked "
                f"outside it; prepare them first: Orchestrator.prepare({self._family!r}, weights)"
            )
        arrays = self._arguments.repacked(values, taken)  # a packed launch keeps none of them
        self._packer(arrays, stream)()
        # The repacked weights end with this call, so the work has to.
        self._device.synchronize()

    def _remember(self, key: Key, values: tuple[Any, ...], addresses: Found, stream: Any) -> None:
        self._keep(key, values, partial(self._launches.kept, addresses, stream))

    def _keep(
        self, key: Key, values: tuple[Any, ...], pack: Callable[[], Callable[[], None]]
    ) -> None:
        moving = self._arguments.movable(values)
        if moving is not None:
            self.plans.remember(key, values, moving, pack)
