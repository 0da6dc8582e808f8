"""A bound kernel: one member on one problem, called with arrays.

The first call with a set of arrays checks them and packs a launch; later calls with the
same arrays find it in one dictionary. Arrays are held weakly: a bound kernel keeps none
alive, and what was packed for an array goes when the array does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, Problem, Verdict
from xpu.orchestrator.arguments import Arguments
from xpu.orchestrator.weights import Preparer
from xpu.spec import Argument, Device, DeviceArray

_MOST_PLANS: Final = 1 << 16
"""Sets of living arrays that one bound kernel remembers: the experts of all layers of a
mixture share one. Past that it forgets them all, and packs again what is still used."""

_Plan = tuple[Callable[[], None], tuple[weakref.ref[Any], ...], tuple[tuple[int, int], ...]]
"""A packed launch, the arrays that it was packed for, and where those were that may move."""


class BoundKernel:
    """One member of a family on one problem, ready to be called from any thread."""

    def __init__(
        self,
        *,
        family: str,
        problem: Problem,
        device: Device,
        pack: Callable[[Sequence[DeviceArray], Any], Callable[[], None]],
        arguments: Sequence[Argument],
        shapes: Mapping[str, tuple[int, ...]],
        preparer: Preparer | None,
        result: ChoiceResult,
        is_final: bool,
        verdict: Verdict,
        pruned: Sequence[Verdict],
    ) -> None:
        self.family = family
        self.problem = problem
        self.result = result
        self.is_final = is_final
        self.verdict = verdict
        self.pruned = tuple(pruned)
        self._device = device
        self._pack = pack
        self._arguments = Arguments(f"{family} {problem.key}", device, arguments, shapes, preparer)
        self._is_empty = any(size == 0 for size in problem.sizes.values())
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    @property
    def member(self) -> str:
        """Name of the member that serves."""
        return self.verdict.candidate.name

    def __call__(self, *inputs: Any, out: Any, stream: Any = None) -> Any:
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
        The same objects are not looked at again: an array whose shape, element type or
        memory was exchanged in place (``ndarray.resize`` without its check) is launched on
        as it was. Of a tensor with ``data_ptr()`` the address is compared at every call;
        another DLPack array is taken anew at every call.
        """
        values = (*inputs, out)
        try:
            plan = self._plans.get((*map(id, values), stream))
        except TypeError:  # a stream that cannot be hashed: nothing is remembered for it
            plan = None
        if plan is not None:
            launch, _, places = plan
            for place, address in places:
                if values[place].data_ptr() != address:
                    break
            else:
                launch()
                return out
        return self._first_call(inputs, out, stream)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the kernel bound to {self.family} {self.problem.key} cannot be pickled: it is "
            "loaded in this process; make an Orchestrator in the other one and bind there"
        )

    def explain(self) -> str:
        """Say which member serves, why, and what was pruned."""
        lines = [f"{self.family} {self.problem.key}: {self.member} ({self.result.source})"]
        if self.result.margin_permille is not None:
            tie = ", a tie" if self.result.tie else ""
            lines.append(f"  margin {self.result.margin_permille} permille{tie}")
        if self.result.note:
            lines.append(f"  {self.result.note}")
        lines.extend(f"  {verdict}" for verdict in self.pruned)
        return "\n".join(lines)

    def _first_call(self, inputs: tuple[Any, ...], out: Any, stream: Any) -> Any:
        values = self._arguments.ordered(inputs, out)
        taken = self._arguments.take(values)
        if self._is_empty:
            return out
        if self._arguments.needs_repacking(values) and self._device.is_capturing(stream):
            raise XpuLaunchException(
                f"{self.family} {self.problem.key}: the stream is being captured, and raw weights "
                "are repacked outside it; prepare them first: "
                f"Orchestrator.prepare({self.family!r}, weights)"
            )
        arrays, has_repacked = self._arguments.repacked(values, taken)
        launch = self._pack(arrays, stream)
        launch()
        if has_repacked:
            # The repacked weights end with this call, so the work has to.
            self._device.synchronize()
        else:
            self._remember((*inputs, out), stream, launch)
        return out

    def _remember(self, values: tuple[Any, ...], stream: Any, launch: Callable[[], None]) -> None:
        moving = self._arguments.movable(values)
        if moving is None:
            return
        key = (*map(id, values), stream)
        kernel = weakref.ref(self)

        def forget(_dead: object) -> None:
            # Before its number can become another array's.
            if (alive := kernel()) is not None:
                alive._plans.pop(key, None)

        try:
            plan = (launch, tuple(weakref.ref(value, forget) for value in values), moving)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        except TypeError:
            # An array that cannot be held weakly, or a stream that cannot be hashed.
            return
