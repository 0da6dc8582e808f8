"""The K-quant formats in numbers: blocks, rows, and the errors that a product may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BLOCK_K: Final = 256
"""Weights per block. Source: the GGUF K-quant formats (QK_K)."""

BLOCK_BYTES: Final[Mapping[str, int]] = {"q4_k": 144, "q5_k": 176, "q6_k": 210}
"""Bytes per block. Source: the GGUF quantisation types Q4_K, Q5_K and Q6_K."""

ERROR_RMS: Final = 0.008
"""Largest acceptable root mean square of `errors`; ggml's own kernels come to 0.0072."""

ERROR_MAX: Final = 0.04
"""Largest acceptable single one of `errors`; ggml's own kernels come to 0.030."""


def row_bytes(weight_format: str, k: int) -> int:
    """Return the bytes of one row of `k` weights.

    Raises
    ------
    ValueError
        `k` is not a multiple of the block, or the format is not a K-quant known here.
    """
    if weight_format not in BLOCK_BYTES:
        raise ValueError(f"format {weight_format!r} is none of {', '.join(BLOCK_BYTES)}")
    if k <= 0 or k % BLOCK_K:
        raise ValueError(f"k = {k} is not a positive multiple of {BLOCK_K}")
    return k // BLOCK_K * BLOCK_BYTES[weight_format]
