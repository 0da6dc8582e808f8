"""Which of the dialect's cooperative matrices a target multiplies by its own instructions."""

from __future__ import annotations

import functools
import re
from typing import Final

import attrs

from xpu.model import MATRIX_SUMS, MatrixShape


@attrs.frozen
class MatrixUnit:
    """What a target multiplies matrices with.

    Attributes
    ----------
    macro, version
        What tells ``xpu_hip_matrix.h`` of it.
    elements
        The types of operands for which that has an instruction of 16 x 16 sums.
    """

    macro: str
    version: int
    elements: tuple[str, ...]


_ALL: Final = tuple(MATRIX_SUMS)
# Source: LLVM, AMDGPU feature lists and the builtins that need them. The bfloat16 instruction of
# gfx908 takes 8 k where the others take 16. gfx125* and gfx117* have instructions of other forms.
_UNITS: Final = (
    (re.compile(r"gfx11(?:0[0-3]|5[0-3]|-generic)"), MatrixUnit("XPU_HIP_WMMA", 11, _ALL)),
    (re.compile(r"gfx12(?:0[01]|-generic)"), MatrixUnit("XPU_HIP_WMMA", 12, _ALL)),
    (re.compile(r"gfx908"), MatrixUnit("XPU_HIP_MFMA", 908, ("int8", "float16"))),
    (re.compile(r"gfx90a"), MatrixUnit("XPU_HIP_MFMA", 910, _ALL)),
    (re.compile(r"gfx9(?:4[0-2]|50|-4-generic)"), MatrixUnit("XPU_HIP_MFMA", 940, _ALL)),
)


def matrix_unit(target: str) -> MatrixUnit | None:
    """Return what a target has; None where it has nothing that the prelude knows."""
    processor = target.partition(":")[0]
    return next((unit for name, unit in _UNITS if name.fullmatch(processor)), None)


@functools.cache
def matrix_shapes(target: str) -> tuple[str, ...]:
    """Return the shapes of a target, for instance ``gfx1151``; none where there are none.

    Rows are 16 or, with half of an instruction's work for nothing, 8.
    """
    unit = matrix_unit(target)
    return tuple(
        str(MatrixShape(element, MATRIX_SUMS[element], m, 16, k))
        for element in (() if unit is None else unit.elements)
        for m in (16, 8)
        for k in (16, 32)
    )
