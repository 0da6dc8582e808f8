"""A family with all sizes but one fixed: the open size comes from the arrays of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xpu.errors import XpuConfigError
from xpu.model import Family, Problem
from xpu.orchestrator.bound import BoundKernel
from xpu.spec import Design


class Op:
    """Calls the kernel that serves the open size, bound at its first use."""

    def __init__(
        self,
        family: Family,
        design: Design,
        fixed: Mapping[str, int],
        bind: Callable[[str, int], BoundKernel],
    ) -> None:
        self._bind = bind
        self.open_size = _open_size(family, fixed)
        self._argument, self._axis = _where(family, design, fixed, self.open_size)
        self._kernels: dict[int, BoundKernel] = {}

    def __call__(self, *inputs: Any, out: Any, stream: Any = None) -> Any:
        """Launch on arrays, and return `out`. See `BoundKernel` for the arguments."""
        size = inputs[self._argument].shape[self._axis]
        kernel = self._kernels.get(size)
        if kernel is None:
            kernel = self.kernel(size)
        return kernel(*inputs, out=out, stream=stream)

    def kernel(self, size: int) -> BoundKernel:
        """Return the bound kernel for one value of the open size."""
        kernel = self._bind(self.open_size, int(size))
        # One that stands in for an answer still to come is asked for again.
        if kernel.is_final:
            self._kernels[int(size)] = kernel
        return kernel

    def forget(self) -> None:
        """Bind anew at the next call of every size."""
        self._kernels.clear()


def _open_size(family: Family, fixed: Mapping[str, int]) -> str:
    unknown = [name for name in fixed if name not in family.problem]
    left = [name for name in family.problem if name not in fixed]
    if unknown or len(left) != 1:
        raise XpuConfigError(
            f"family {family.name!r}: op() takes all of {', '.join(family.problem)} but one; "
            f"given: {', '.join(fixed) or 'none'}"
        )
    return left[0]


def _where(family: Family, design: Design, fixed: Mapping[str, int], name: str) -> tuple[int, int]:
    """Find the input and the axis whose length is the open size, by trying two sizes."""
    first, second = (
        design.shapes(Problem(**fixed, **{name: size}).ordered(family.problem), family.constants)
        for size in (1009, 2003)
    )
    for index, argument in enumerate(design.arguments[:-1]):
        pairs = zip(first[argument.name], second[argument.name], strict=True)
        for axis, (one, other) in enumerate(pairs):
            if (one, other) == (1009, 2003):
                return index, axis
    raise XpuConfigError(
        f"family {family.name!r}: size {name!r} is no axis of an input; bind() each size instead"
    )
