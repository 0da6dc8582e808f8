"""Tiers of cooperative matrices: native where the target has the shape, else the software tile.

The shared prelude of the dialect `simt` picks a tier for every shape that a source uses, from the
macro that is made here, and leaves a symbol in the object for each. What was picked is read from
there. Matrices of one M and N in a kernel are a group: they meet in one product, or their sums are
added lane by lane. A group of which only a part is native is demoted whole: the source is compiled
again with none of its shapes. A backend's compiler half calls this; nothing here knows a target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import attrs

from xpu.errors import XpuBuildError
from xpu.model import MATRIX_SUMS, MatrixShape, Operation
from xpu.spec.compiler import KernelUnit

R = TypeVar("R")

SHAPES_MACRO: Final = "XPU_MATRIX_SHAPES"
NATIVE: Final = "native"
SOFTWARE: Final = "software"
DEMOTED: Final = "demoted"
"""Tiers of a shape. `DEMOTED` is the software tile, though the target has the shape."""

_ELEMENTS: Final = ("int8", "float16", "bfloat16")
"""By their number in xpu_simt_tiers.h; the numbers behind them are of sums."""
_USE: Final = re.compile(rb"_ZN3xpu4simt10matrix_useILi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELb([01])EE")
"""The symbol of ``xpu::simt::matrix_use<type, M, N, K, native>``. Source: Itanium C++ ABI, 5.1."""


@attrs.frozen(order=True)
class _Use:
    """One shape that an object uses; `element` is None for sums alone."""

    m: int
    n: int
    k: int
    element: str | None
    is_native: bool


def in_tiers(
    unit: KernelUnit,
    shapes: Iterable[str],
    compiled: Callable[[KernelUnit], R],
    code_of: Callable[[R], bytes],
) -> tuple[R, tuple[Operation, ...]]:
    """Compile a source of the dialect `simt` so that each group of matrices has one tier.

    Parameters
    ----------
    unit
        The source.
    shapes
        What the target has, as `Compiler.matrix_shapes` gives it.
    compiled
        Compiles a unit: this one, with a macro more.
    code_of
        The object in what that returns, with its symbols.

    Returns
    -------
    tuple
        What was compiled, and for each shape that it uses its text and its tier.

    Raises
    ------
    XpuBuildError
        A source picks shapes by the tier that it gets, and so mixes tiers without end; or a
        parameter or constant takes the name of the macro.
    """
    if SHAPES_MACRO in unit.defines:
        raise XpuBuildError(
            f"a parameter or constant gives the macro {SHAPES_MACRO}, which the dialect gives "
            "itself; call it otherwise"
        )
    native = [MatrixShape.from_text(text) for text in shapes]
    left = native
    for _ in range(2):
        made = compiled(attrs.evolve(unit, defines={**unit.defines, SHAPES_MACRO: _macro(left)}))
        uses = _uses(code_of(made))
        straddling = _straddling(uses)
        if not straddling:
            return made, _operations(uses, native)
        left = [shape for shape in left if (shape.m, shape.n) not in straddling]
    groups = ", ".join(f"{m}x{n}" for m, n in sorted(straddling))
    raise XpuBuildError(
        f"matrices of {groups} are of two tiers: which shapes the source uses depends on the tier "
        "that it gets; use the same ones in both"
    )


def _macro(shapes: Iterable[MatrixShape]) -> str:
    """Write the shapes as xpu_simt_tiers.h reads them."""
    known = [shape for shape in shapes if shape.element in _ELEMENTS]
    return "".join(
        f"{{{_ELEMENTS.index(shape.element)},{shape.m},{shape.n},{shape.k}}}," for shape in known
    )


def _uses(code: bytes) -> list[_Use]:
    found = set()
    for match in _USE.finditer(code):
        number, m, n, k, native = map(int, match.groups())
        element = _ELEMENTS[number] if number < len(_ELEMENTS) else None
        found.add(_Use(m, n, k, element, bool(native)))
    return sorted(found, key=lambda use: (use.m, use.n, use.k, use.element or "", use.is_native))


def _straddling(uses: Iterable[_Use]) -> set[tuple[int, int]]:
    """Name the groups, by M and N, of which a part is native and a part is not."""
    tiers: dict[tuple[int, int], set[bool]] = {}
    for use in uses:
        tiers.setdefault((use.m, use.n), set()).add(use.is_native)
    return {group for group, found in tiers.items() if len(found) > 1}


def _operations(uses: Iterable[_Use], native: Iterable[MatrixShape]) -> tuple[Operation, ...]:
    has = set(native)
    made = []
    for use in uses:
        if use.element is not None:
            shape = MatrixShape(use.element, MATRIX_SUMS[use.element], use.m, use.n, use.k)
            fallen = DEMOTED if shape in has else SOFTWARE
            made.append(Operation(str(shape), NATIVE if use.is_native else fallen))
    return tuple(made)
