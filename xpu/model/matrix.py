"""Shapes of cooperative matrices, and how they are written: ``int8->int32:16x16x32``.

A wave multiplies c (M, N) += a (M, K) · b (K, N). A shape names the elements of a and b, those
of c, and the sizes. Device facts, compilers and manifests all write it in this one form.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from xpu.errors import XpuConfigError

MATRIX_SUMS: Final = {"int8": "int32", "float16": "float32", "bfloat16": "float32"}
"""What the products of each element type are summed in."""
_FORM: Final = re.compile(r"(\w+)->(\w+):(\d+)x(\d+)x(\d+)")
_EXAMPLE: Final = "int8->int32:16x16x32"


@attrs.frozen(order=True)
class MatrixShape:
    """One shape of matrices that a wave multiplies; its text is ``element->sums:MxNxK``.

    Attributes
    ----------
    element, sums
        Types of a and b, and of c, as numpy and ``ml_dtypes`` call them.
    m, n, k
        Rows of a and c, columns of b and c, and what is summed over; counts of elements.
    """

    element: str
    sums: str
    m: int
    n: int
    k: int

    @classmethod
    def from_text(cls, text: str) -> MatrixShape:
        """Read a shape.

        Raises
        ------
        XpuConfigError
            The text has another form, or a type or size that matrices do not have.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise XpuConfigError(f"{text!r} is no matrix shape; write for instance {_EXAMPLE!r}")
        element, sums, *sizes = match.groups()
        m, n, k = map(int, sizes)
        if MATRIX_SUMS.get(element) != sums or 0 in (m, n, k):
            allowed = ", ".join(f"{one}->{of}" for one, of in MATRIX_SUMS.items())
            raise XpuConfigError(
                f"{text!r} is no matrix shape; types are one of {allowed}, sizes are above 0"
            )
        return cls(element, sums, m, n, k)

    def __str__(self) -> str:
        return f"{self.element}->{self.sums}:{self.m}x{self.n}x{self.k}"
