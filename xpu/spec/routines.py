"""Routines of libraries that a design may call in the place of a kernel of its own.

`KernelSource.routine` names one; a backend says with `Backend.library` which it offers, and
`Device.routine` gives it to be launched. Matrices are row by row without gaps. Of a `Launch`
only the alignment counts: how the work is spread is the library's own affair.
"""

from __future__ import annotations

from typing import Final

GEMM_NT_BF16: Final = "gemm_nt_bf16"
"""y = x times the transpose of W, summed in float32.

Arrays, in this order: W (n, k) bfloat16, x (m, k) bfloat16, y (m, n) float32, all of it written.
Sizes: m, n, k, each at least 1, or m or n of 0: then nothing is launched. The order of a sum is
the library's, the same at every call with the same sizes. A row of x that is not finite changes
no other row of y.
"""
