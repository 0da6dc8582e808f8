"""The K-quant formats in numpy: what the kernels are judged by.

Dequantises blocks to float32 as the format defines it, multiplies in float64, measures the
error of a product and makes random blocks. It never reads prepared weights and shares nothing
with the kernels. Called by the designs' `data` and `verify`, and by tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xpu_family_kquant.elements import ELEMENTS, Element
from xpu_family_kquant.formats import BLOCK_BYTES as BLOCK_BYTES
from xpu_family_kquant.formats import ERROR_MAX as ERROR_MAX
from xpu_family_kquant.formats import ERROR_RMS as ERROR_RMS
from xpu_family_kquant.formats import row_bytes as row_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Blocks = NDArray[np.uint8]
    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]


DRAWN: Final = 1 << 22
"""Activations that are drawn one by one; drawing them takes 0.03 s."""


def dequantise(weight_format: str, rows: Blocks) -> Floats:
    """Return the weights of raw rows.

    Parameters
    ----------
    weight_format
        ``q4_k``, ``q5_k`` or ``q6_k``.
    rows : (N, bytes per row), uint8

    Returns
    -------
    (N, K), float32
    """
    import numpy as np

    n = rows.shape[0]
    blocks = np.ascontiguousarray(rows).reshape(-1, BLOCK_BYTES[weight_format])
    weights = _dequantise_q6(blocks) if weight_format == "q6_k" else _dequantise_q45(blocks)
    return weights.reshape(n, -1)


def _half(blocks: Blocks, at: int) -> Floats:
    """Return the float16 at a byte offset of every block, as float32 (blocks, 1)."""
    import numpy as np

    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _scales_and_mins(packed: Blocks) -> tuple[Blocks, Blocks]:
    """Unpack the 12 bytes of 6-bit numbers into 8 scales and 8 mins.

    The first eight bytes hold numbers 0 to 3 of the scales, then of the mins, in their low six
    bits; the last four bytes hold the low four bits of numbers 4 to 7, scale and min in one
    byte, whose two upper bits are the upper bits of the first eight bytes.
    """
    import numpy as np

    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    mins = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return scales, mins


def _dequantise_q45(blocks: Blocks) -> Floats:
    """Q4_K and Q5_K: 8 sub-blocks of 32, weight = (d * scale) * q - (dmin * min)."""
    import numpy as np

    count, size = blocks.shape
    scales, mins = _scales_and_mins(blocks[:, 4:16])
    low = blocks[:, size - 128 :].reshape(count, 4, 1, 32)
    q = (low >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1) & 15).reshape(count, 8, 32)
    if size == BLOCK_BYTES["q5_k"]:
        fifth = blocks[:, 16:48].reshape(count, 1, 32)
        q = q | (fifth >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1) << 4
    scale = (_half(blocks, 0) * scales.astype(np.float32))[:, :, None]
    minimum = (_half(blocks, 2) * mins.astype(np.float32))[:, :, None]
    weights: Floats = scale * q.astype(np.float32) - minimum
    return weights


def _dequantise_q6(blocks: Blocks) -> Floats:
    """Q6_K: 16 sub-blocks of 16, weight = (d * scale) * (q - 32)."""
    import numpy as np

    count = blocks.shape[0]
    nibbles = blocks[:, :128].reshape(count, 2, 1, 2, 32)
    low = nibbles >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1, 1) & 15
    pairs = blocks[:, 128:192].reshape(count, 2, 1, 32)
    high = pairs >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    q = low.reshape(count, 16, 16) | high.reshape(count, 16, 16) << 4
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    scale = (_half(blocks, 208) * scales)[:, :, None]
    weights: Floats = scale * (q.astype(np.float32) - np.float32(32))
    return weights


def product(weight_format: str, rows: Blocks, x: Floats) -> Doubles:
    """Return x times the transposed weights in float64, (M, N)."""
    import numpy as np

    weights = dequantise(weight_format, rows).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        result: Doubles = x.astype(np.float64) @ weights.T
    return result


def errors(
    weight_format: str, rows: Blocks, x: Floats, y: Floats, of_y: Element = ELEMENTS["float32"]
) -> Doubles:
    """Return the error of every output: |y - exact| over (norm of its weights * rms of its x).

    What rounding it to the results' type may have added is taken off |y - exact| first.

    Parameters
    ----------
    rows : (N, bytes per row), uint8
    x : (M, K)
    y : (M, N)
    of_y
        The type that results were rounded to.

    Returns
    -------
    (M, N), float64
        0 where the denominator is 0 and y is exactly right, infinite where it is 0 and y is not.
        Rows of x that are not finite must be left out by the caller: there is no error to speak of.
    """
    import numpy as np

    weights = dequantise(weight_format, rows).astype(np.float64)
    exact = x.astype(np.float64) @ weights.T
    norms = np.sqrt(np.sum(weights**2, axis=1))
    rms = np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1))
    scale = rms[:, None] * norms[None, :]
    # What is too large for the type is right when infinite, within what a result may be off.
    is_beyond = np.isinf(y) & (np.abs(exact) + ERROR_MAX * scale >= of_y.most)
    given = np.where(is_beyond & (np.sign(y) == np.sign(exact)), exact, y.astype(np.float64))
    # By y and not by the exact one: it is y's own step that it was rounded to.
    rounding = np.where(np.isfinite(given), of_y.allowed(given), 0.0)
    return _relative(np.maximum(np.abs(given - exact) - rounding, 0.0), scale)


def sampled_errors(
    weight_format: str,
    rows: Blocks,
    x: Floats,
    y: Floats,
    rng: np.random.Generator,
    of_y: Element = ELEMENTS["float32"],
    count: int = 1024,
) -> Doubles:
    """Return `errors` on about `count` outputs: some rows of x times some weight rows.

    The first and the last row and column, where tiles end, are always among them.
    """
    import numpy as np

    m, n = y.shape
    some_m = _sample(m, max(1, min(m, 32)), rng)
    some_n = _sample(n, max(1, min(n, count // len(some_m))), rng)
    return errors(weight_format, rows[some_n], x[some_m], y[np.ix_(some_m, some_n)], of_y)


def _sample(size: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    import numpy as np

    ends = np.array([0, size - 1], np.int64)
    return np.unique(np.concatenate([ends, rng.integers(0, size, count)]))


def _relative(difference: Doubles, scale: Doubles) -> Doubles:
    import numpy as np

    scale = np.broadcast_to(scale, difference.shape)
    result = np.where(difference == 0, 0.0, np.inf)
    np.divide(difference, scale, out=result, where=scale > 0)
    return result


def random_blocks(weight_format: str, n: int, k: int, rng: np.random.Generator) -> Blocks:
    """Make valid rows of random weights without a quantiser.

    Quants and sub-block scales are random bits; the float16 block scales are finite and such
    that weights are of the order of 1 and, where there are mins, about centred on 0.

    Returns
    -------
    (n, bytes per row), uint8
    """
    import numpy as np

    size = BLOCK_BYTES[weight_format]
    count = n * row_bytes(weight_format, k) // size
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    spread = rng.uniform(0.5, 2.0, count)
    if weight_format == "q6_k":
        # Scales are int8 and quants reach from -32 to 31: 64 * 16 is their typical product.
        _put_half(blocks, 208, spread / (64 * 16) * rng.choice([-1.0, 1.0], count))
    else:
        largest = 15 if weight_format == "q4_k" else 31
        _put_half(blocks, 0, spread / (32 * largest / 2))
        _put_half(blocks, 2, spread / 32)
    return blocks.reshape(n, -1)


def random_activations(m: int, k: int, rng: np.random.Generator) -> Floats:
    """Make normally distributed activations, float32 (M, K).

    Up to `DRAWN` of them each is drawn; beyond that a row is a stretch of so many drawn, from a
    random place on: drawing 30 million takes a second, and hardly two rows are alike either way.
    """
    import numpy as np

    if m * k <= DRAWN:
        return rng.standard_normal((m, k), dtype=np.float32)
    drawn = rng.standard_normal(max(DRAWN, 2 * k), dtype=np.float32)
    starts = rng.integers(0, drawn.size - k, m)
    return np.lib.stride_tricks.sliding_window_view(drawn, k)[starts]


def _put_half(blocks: Blocks, at: int, values: Doubles) -> None:
    import numpy as np

    blocks[:, at : at + 2] = values.astype("<f2").reshape(-1, 1).view(np.uint8)
