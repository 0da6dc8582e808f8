"""A family with all sizes but one fixed: the open size comes from the arrays of each call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from xpu.errors import XpuConfigError, XpuLaunchException
from xpu.model import Family, Problem
from xpu.orchestrator.arguments import result_place
from xpu.orchestrator.bound import BoundKernel
from xpu.orchestrator.calls import ABSENT, Calls, given
from xpu.orchestrator.direct import Direct
from xpu.orchestrator.plans import Key, Plan
from xpu.spec import Argument, Design

_SIZE: Final = attrgetter("size")

_ASK_AGAIN_S: Final = 0.1
"""Seconds that a kernel which stands in for an answer still to come serves unasked: asking
costs about a millisecond, many calls' worth, and a trial takes a second or two."""

_TRIED: Final = ((11, 13), (1009, 2003), (1009 << 10, 2003 << 10))
"""Pairs of sizes by which an axis is found, the first that a design can serve: some designs serve
few rows alone, some sizes are multiples, and a prime is no other axis's length by accident."""


class Op(Direct):
    """Calls the kernel that serves the open size, bound at its first use."""

    def __new__(
        cls,
        family: Family,
        design: Design,
        fixed: Mapping[str, int],
        bind: Callable[[str, int], BoundKernel],
        beside: Callable[[Any], AbstractContextManager[None]] = nullcontext,
    ) -> Op:
        """Make an op of a family's, with all sizes but one fixed."""
        serving = _Serving(family, design, fixed, bind, beside)
        op = super().__new__(cls, serving.direct())
        op._serving = serving
        return op

    if TYPE_CHECKING:
        _serving: _Serving

        def __call__(self, *inputs: Any, out: Any, stream: Any = None) -> Any:
            """Launch on arrays; see `_Serving.call`."""

    @property
    def open_size(self) -> str:
        """Name of the size that the arrays of each call give."""
        return self._serving.open_size

    def kernel(self, size: int) -> BoundKernel:
        """Return the bound kernel for one value of the open size."""
        return self._serving.kernel(size)

    def forget(self) -> None:
        """Bind anew at the next call of every size."""
        self._serving.forget()


class _Serving:
    """The kernels of one op."""

    def __init__(
        self,
        family: Family,
        design: Design,
        fixed: Mapping[str, int],
        bind: Callable[[str, int], BoundKernel],
        beside: Callable[[Any], AbstractContextManager[None]],
    ) -> None:
        self._bind = bind
        self._beside = beside
        self._family = family.name
        self.open_size = _open_size(family, fixed)
        self._place, self._axis, self._argument = _where(family, design, fixed, self.open_size)
        self._has_two_inputs = len(design.arguments) == 3
        self._kernels: dict[int, Calls] = {}
        self._stand_ins: dict[int, tuple[BoundKernel, float]] = {}
        # What finds the arrays that a kernel remembers, by the number of elements of the array
        # that gives the size: a tensor tells that in half the time of its shape. A set of arrays
        # is remembered by one kernel alone, so a number that stands for two sizes does no harm.
        self._plans: dict[int, Callable[[Key], Plan | None]] = {}
        self._count: Callable[[Any], int] = _SIZE

    def call(self, *inputs: Any, out: Any, stream: Any = None) -> Any:
        """Launch on arrays, and return `out`. See `BoundKernel` for the arguments.

        Raises
        ------
        XpuLaunchException
            As `BoundKernel`; or the array that gives the open size has no such axis.
        """
        plans, kernels, size = self._plans, self._kernels, self._size(inputs)
        calls = kernels.get(size)
        if calls is None:
            with self._beside(stream):
                calls = self._served(size).calls
        if kernels.get(size) is calls:
            array = inputs[self._place]
            known, self._count = self._count, getattr(type(array), "numel", _SIZE)
            if self._count is not known:
                plans.clear()
            with suppress(Exception):  # it does not tell
                plans[self._count(array)] = calls.plans.get
        return calls.call(*inputs, out=out, stream=stream)

    def direct(self) -> Callable[..., Any]:
        """Return `call` as a function of two inputs; see `Calls.direct`."""
        if not self._has_two_inputs:
            return self.call
        place, axis, call = self._place, self._axis, self.call

        def direct(
            first: Any = ABSENT,
            second: Any = ABSENT,
            /,
            *others: Any,
            out: Any,
            stream: Any = None,
        ) -> Any:
            key, array = (id(first), id(second), id(out), stream), second if place else first
            try:
                plan = self._plans[self._count(array)](key)
                calls = self._kernels[array.shape[axis]] if plan is None else None
            except Exception:
                # A size or a kind of array that is not known yet, or none at all.
                return call(*given(first, second, *others), out=out, stream=stream)
            if plan is not None and not others:
                launch, of_second, start, of_result, end = plan
                if of_result(out) == end and of_second(second) == start:
                    launch()
                    return out
            if calls is None or others or second is ABSENT:
                return call(*given(first, second, *others), out=out, stream=stream)
            calls.first(key, (first, second, out), stream)
            return out

        return direct

    def kernel(self, size: int) -> BoundKernel:
        """Return the bound kernel for one value of the open size."""
        kernels, stand_ins = self._kernels, self._stand_ins
        kernel = self._bind(self.open_size, size)
        # What was timed beside others' work serves here, who asked, though nobody keeps it.
        if kernel.is_final or kernel.result.source == "timed":
            kernels[size] = kernel.calls
        else:
            stand_ins[size] = (kernel, time.monotonic() + _ASK_AGAIN_S)
        return kernel

    def forget(self) -> None:
        """Bind anew at the next call of every size."""
        # New dictionaries: what a bind under way in another thread finds is kept in the old.
        self._kernels, self._stand_ins, self._plans = {}, {}, {}

    def _served(self, size: int) -> BoundKernel:
        stand_in, until = self._stand_ins.get(size, (None, 0.0))
        if stand_in is not None and time.monotonic() < until:
            return stand_in
        return self.kernel(size)

    def _size(self, inputs: tuple[Any, ...]) -> int:
        try:
            return int(inputs[self._place].shape[self._axis])
        except (IndexError, AttributeError, TypeError, ValueError):
            given = "nothing"
            if len(inputs) > self._place:
                value = inputs[self._place]
                shape = getattr(value, "shape", None)
                given = (
                    f"{type(value).__name__} of shape {shape}"
                    if shape is not None
                    else (f"{type(value).__name__} without a shape")
                )
            raise XpuLaunchException(
                f"{self._family}: argument {self._argument.name!r} gives size "
                f"{self.open_size!r} on its axis {self._axis}; given: {given}"
            ) from None


def _open_size(family: Family, fixed: Mapping[str, int]) -> str:
    unknown = [name for name in fixed if name not in family.problem]
    left = [name for name in family.problem if name not in fixed]
    if unknown or len(left) != 1:
        raise XpuConfigError(
            f"family {family.name!r}: op() takes all of {', '.join(family.problem)} but one; "
            f"given: {', '.join(fixed) or 'none'}"
        )
    return left[0]


def _where(
    family: Family, design: Design, fixed: Mapping[str, int], name: str
) -> tuple[int, int, Argument]:
    """Find the input and the axis whose length is the open size, by trying two sizes."""
    low, high = _tried(family, design, fixed, name)
    shapes = [design.shapes(problem, family.constants) for problem in (low, high)]
    wanted = (low.sizes[name], high.sizes[name])
    inputs = list(design.arguments)
    inputs.pop(result_place(inputs))
    for place, argument in enumerate(inputs):
        for axis, lengths in enumerate(zip(*(it[argument.name] for it in shapes), strict=True)):
            if lengths == wanted:
                return place, axis, argument
    raise XpuConfigError(
        f"family {family.name!r}: size {name!r} is no axis of an input; bind() each size instead"
    )


def _tried(
    family: Family, design: Design, fixed: Mapping[str, int], name: str
) -> tuple[Problem, Problem]:
    """Return two problems that the design can serve and that differ in the open size alone."""
    reason = ""
    for pair in _TRIED:
        low, high = (Problem(**fixed, **{name: it}).ordered(family.problem) for it in pair)
        reason = design.check_problem(low, family.constants) or design.check_problem(
            high, family.constants
        )
        if not reason:
            return low, high
    raise XpuConfigError(f"family {family.name!r}: {reason}")
