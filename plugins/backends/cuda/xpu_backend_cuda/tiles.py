"""Which of the dialect's cooperative matrices a target multiplies by its own instructions."""

from __future__ import annotations

import functools
import re
from typing import Final

from xpu.model import MATRIX_SUMS, MatrixShape

_NAME: Final = re.compile(r"(?:sm|compute)_(\d+)[af]?")
_FIRST: Final = 80
"""The first target with the instructions of ``xpu_cuda_matrix.h``. Source: PTX ISA, mma: from
8.0 on m16n8k16 of f16, bf16 and s8, and m16n8k32 of s8."""


@functools.cache
def matrix_shapes(target: str) -> tuple[str, ...]:
    """Return the shapes of a target, for instance ``sm_90a``; none where there are none."""
    match = _NAME.fullmatch(target)
    if match is None or int(match[1]) < _FIRST:
        return ()
    return tuple(
        str(MatrixShape(element, sums, m, 16, k))
        for element, sums in MATRIX_SUMS.items()
        for m in (16, 8)
        for k in (16, 32)
    )
