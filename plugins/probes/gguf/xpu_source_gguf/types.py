"""The tensor types of GGUF: number, name, and the size of a block.

A row of `k` elements is stored in blocks of `block_elements`, each of `block_bytes`.
"""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class TensorType:
    """One way in which elements are stored; sizes are absent for an unknown number."""

    name: str
    block_elements: int | None = None
    block_bytes: int | None = None

    def bytes_for(self, elements: int) -> int | None:
        """Return the bytes of whole blocks of elements; None when the type is unknown."""
        if self.block_elements is None or self.block_bytes is None:
            return None
        return elements // self.block_elements * self.block_bytes


# Source: enum ggml_type and the block structures of ggml-common.h; the `gguf` package's
# GGML_QUANT_SIZES agrees but for q8_1, whose block holds two half floats, not two floats
# (it is for activations: no file stores it).
KNOWN: Final[dict[int, TensorType]] = {
    0: TensorType("f32", 1, 4),
    1: TensorType("f16", 1, 2),
    2: TensorType("q4_0", 32, 18),
    3: TensorType("q4_1", 32, 20),
    6: TensorType("q5_0", 32, 22),
    7: TensorType("q5_1", 32, 24),
    8: TensorType("q8_0", 32, 34),
    9: TensorType("q8_1", 32, 36),
    10: TensorType("q2_k", 256, 84),
    11: TensorType("q3_k", 256, 110),
    12: TensorType("q4_k", 256, 144),
    13: TensorType("q5_k", 256, 176),
    14: TensorType("q6_k", 256, 210),
    15: TensorType("q8_k", 256, 292),
    16: TensorType("iq2_xxs", 256, 66),
    17: TensorType("iq2_xs", 256, 74),
    18: TensorType("iq3_xxs", 256, 98),
    19: TensorType("iq1_s", 256, 50),
    20: TensorType("iq4_nl", 32, 18),
    21: TensorType("iq3_s", 256, 110),
    22: TensorType("iq2_s", 256, 82),
    23: TensorType("iq4_xs", 256, 136),
    24: TensorType("i8", 1, 1),
    25: TensorType("i16", 1, 2),
    26: TensorType("i32", 1, 4),
    27: TensorType("i64", 1, 8),
    28: TensorType("f64", 1, 8),
    29: TensorType("iq1_m", 256, 56),
    30: TensorType("bf16", 1, 2),
    34: TensorType("tq1_0", 256, 54),
    35: TensorType("tq2_0", 256, 66),
    39: TensorType("mxfp4", 32, 17),
    40: TensorType("nvfp4", 64, 36),
    41: TensorType("q1_0", 128, 18),
}


def tensor_type(number: int) -> TensorType:
    """Return a type by number; an unknown one is named ``type_<number>`` and has no sizes."""
    return KNOWN.get(number) or TensorType(f"type_{number}")
