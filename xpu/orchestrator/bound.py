"""A bound kernel: one member on one problem, called with arrays.

The first call with a set of arrays checks them and packs a launch; later calls with the
same arrays find it in one dictionary. Arrays are held weakly: a bound kernel keeps none
alive, and a dead array's entry is never taken for a new one's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, Problem, Verdict
from xpu.orchestrator.weights import PreparedWeights, Preparer, check_dtype
from xpu.spec import Argument, Device, DeviceArray, Launch, LoadedKernel

_MOST_PLANS: Final = 1024
"""Array sets remembered by one bound kernel: more than the layers of any model in use."""

_Plan = tuple[tuple[Callable[[], Any], ...], Callable[[], None]]


class BoundKernel:
    """One member of a family on one problem, ready to be called from any thread."""

    def __init__(
        self,
        *,
        family: str,
        problem: Problem,
        device: Device,
        kernel: LoadedKernel,
        launch: Launch,
        arguments: Sequence[Argument],
        shapes: Mapping[str, tuple[int, ...]],
        sizes: Sequence[int],
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
        self._kernel = kernel
        self._launch = launch
        self._arguments = tuple(arguments)
        self._shapes = shapes
        self._sizes = tuple(sizes)
        self._preparer = preparer
        self._is_empty = any(size == 0 for size in problem.sizes.values())
        self._plans: dict[tuple[int, ...], _Plan] = {}

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
        """
        if stream is None:
            plan = self._plans.get((*map(id, inputs), id(out)))
            if plan is not None:
                for reference, value in zip(plan[0], (*inputs, out), strict=True):
                    if reference() is not value:
                        break
                else:
                    plan[1]()
                    return out
        return self._first_call(inputs, out, stream)

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
        values = (*inputs, out)
        if len(values) != len(self._arguments):
            names = ", ".join(argument.name for argument in self._arguments[:-1])
            raise XpuLaunchException(
                f"{self._name()}: takes {names} and out=, given {len(inputs)} arrays and out="
            )
        arrays: list[DeviceArray] = []
        is_lasting = stream is None
        for argument, value in zip(self._arguments, values, strict=True):
            array, lasts = self._take(argument, value)
            arrays.append(array)
            is_lasting = is_lasting and lasts
        if self._is_empty:
            return out
        self._refuse_overlap(arrays)
        launch = self._device.launcher(self._kernel, self._launch, arrays, self._sizes, stream)
        launch()
        if is_lasting:
            self._remember(values, launch)
        return out

    def _take(self, argument: Argument, value: Any) -> tuple[DeviceArray, bool]:
        """Return an argument as the kernel takes it, and whether that holds for a next call."""
        wanted = self._shapes[argument.name]
        is_prepared = self._preparer is not None and argument.name == self._preparer.argument.name
        if isinstance(value, PreparedWeights):
            if not is_prepared or self._preparer is None:
                raise XpuLaunchException(
                    f"{self._name()}: argument {argument.name!r} is an array, not prepared weights"
                )
            if value.code_hash != self._preparer.built.manifest.code_hash:
                raise XpuLaunchException(
                    f"{self._name()}: these weights were prepared for another format or target; "
                    f"use Orchestrator.prepare({self.family!r}, …)"
                )
            self._check_shape(argument, value.shape, wanted)
            return value.array, True
        array = self._import(argument, value)
        check_dtype(self._name(), argument, array)
        self._check_shape(argument, array.shape, wanted)
        if is_prepared and self._preparer is not None and not self._is_empty:
            self._preparer.warn_once()
            return self._preparer.prepare(value).array, False
        return array, True

    def _import(self, argument: Argument, value: Any) -> DeviceArray:
        try:
            return self._device.import_array(value, writable=argument.access != "read")
        except XpuLaunchException as cause:
            raise XpuLaunchException(
                f"{self._name()}: argument {argument.name!r}: {cause}"
            ) from cause

    def _check_shape(
        self, argument: Argument, given: tuple[int, ...], wanted: tuple[int, ...]
    ) -> None:
        if tuple(given) != tuple(wanted):
            raise XpuLaunchException(
                f"{self._name()}: argument {argument.name!r} has shape {tuple(wanted)}, "
                f"given {tuple(given)}"
            )

    def _refuse_overlap(self, arrays: Sequence[DeviceArray]) -> None:
        spans = [
            (array.address, array.address + array.nbytes, argument)
            for array, argument in zip(arrays, self._arguments, strict=True)
        ]
        for start, end, written in spans:
            if written.access == "read":
                continue
            for other_start, other_end, other in spans:
                if other is not written and start < other_end and other_start < end:
                    raise XpuLaunchException(
                        f"{self._name()}: {written.name!r} is written and overlaps {other.name!r}"
                    )

    def _remember(self, values: tuple[Any, ...], launch: Callable[[], None]) -> None:
        try:
            references = tuple(weakref.ref(value) for value in values)
        except TypeError:
            # An array that cannot be held weakly is checked at every call.
            return
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[tuple(map(id, values))] = (references, launch)

    def _name(self) -> str:
        return f"{self.family} {self.problem.key}"
