"""The arithmetic of the prelude, against numpy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

WIDEN = """
XPU_KERNEL(xpu::global<const XPU_T> x, xpu::global<float> y, int64_t n) {
    for (int64_t i = xpu::thread(); i < n; i += xpu::threads()) y[i] = xpu::to_float(x[i]);
}
"""
ROUND = """
XPU_KERNEL(xpu::global<const float> x, xpu::global<XPU_T> y, int64_t n) {
    for (int64_t i = xpu::thread(); i < n; i += xpu::threads()) y[i] = xpu::from_float<XPU_T>(x[i]);
}
"""
ALL = np.arange(2**16, dtype=np.uint32).astype(np.uint16)


def widened(kind: str) -> np.ndarray:
    if kind == "xpu::half":
        return ALL.view(np.float16).astype(np.float32)
    return (ALL.astype(np.uint32) << 16).view(np.float32)


def same(got: np.ndarray, right: np.ndarray) -> bool:
    """The same bits, where it is a number."""
    numbers = ~np.isnan(right)
    return (
        bool((np.isnan(got) == ~numbers).all())
        and got[numbers].tobytes() == right[numbers].tobytes()
    )


@pytest.mark.parametrize("kind", ["xpu::half", "xpu::bfloat16"])
def test_every_value_widens(run, kind) -> None:
    y = np.empty(2**16, np.float32)
    run(WIDEN, [ALL, y], [ALL.size], suffix="-fast", XPU_T=kind)
    assert same(y, widened(kind))


def nearest(kind: str, x: np.ndarray) -> np.ndarray:
    """Round by search in the sorted table of all values, ties to the even pattern."""
    table = widened(kind)
    positive = table[: 0x7C00 if kind == "xpu::half" else 0x7F80].astype(np.float64)
    # The step behind the last number: from its middle on the result is infinite.
    limits = np.append(positive, 2 * positive[-1] - positive[-2])
    size = np.abs(x.astype(np.float64))
    above = np.minimum(np.searchsorted(limits, size), len(limits) - 1)
    below = np.maximum(above - 1, 0)
    to_below, to_above = size - limits[below], limits[above] - size
    takes_below = (to_below < to_above) | ((to_below == to_above) & (below % 2 == 0))
    bits = np.where(takes_below, below, above)
    return (bits | np.where(np.signbit(x), 0x8000, 0)).astype(np.uint16)


@pytest.mark.parametrize("kind", ["xpu::half", "xpu::bfloat16"])
def test_rounding_is_to_nearest_with_ties_to_even(run, kind) -> None:
    rng = np.random.default_rng()
    values = widened(kind)
    values = values[np.isfinite(values)]
    step = np.sort(values.astype(np.float64))
    middles = ((step[1:] + step[:-1]) / 2).astype(np.float32)
    around = [np.nextafter(middles, np.float32(sign * np.inf)) for sign in (1, -1)]
    bits = rng.integers(0, 2**32, 50_000, dtype=np.uint64).astype(np.uint32)
    ends = np.array(
        [0, -0.0, 65504, 65519.9, 65520, -65520, 1e38, 3.4e38, 1e-45, -(2**-25)], np.float32
    )
    x = np.concatenate([values, middles, *around, bits.view(np.float32), ends])
    x = x[np.isfinite(x)]
    y = np.empty(x.size, np.uint16)
    run(ROUND, [x, y], [x.size], suffix="-fast", XPU_T=kind)
    assert (y == nearest(kind, x)).all()
    if kind == "xpu::half":
        with np.errstate(over="ignore"):
            assert (y == x.astype(np.float16).view(np.uint16)).all()


@pytest.mark.parametrize("kind", ["xpu::half", "xpu::bfloat16"])
def test_what_is_no_number_stays_none(run, kind) -> None:
    x = np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32)
    x = np.append(x, np.array([0x7F800001, 0xFFBFFFFF], np.uint32).view(np.float32))
    y = np.empty(x.size, np.uint16)
    run(ROUND, [x, y], [x.size], XPU_T=kind)
    assert same(widened(kind)[y], x)


def test_dot_products_of_bytes(run) -> None:
    rng = np.random.default_rng()
    a, b = (rng.integers(0, 2**32, 500, dtype=np.uint64).astype(np.uint32) for _ in range(2))
    c = rng.integers(-(2**20), 2**20, 500).astype(np.int32)
    y = np.empty((2, 500), np.int32)
    run(
        """XPU_KERNEL(xpu::global<const uint32_t> a, xpu::global<const uint32_t> b,
                      xpu::global<const int> c, xpu::global<int> y, int64_t n) {
            for (int64_t i = xpu::thread(); i < n; i += xpu::threads()) {
                y[i] = xpu::dot4(a[i], b[i], c[i]);
                y[n + i] = xpu::dot4_us(a[i], b[i], c[i]);
            }
        }""",
        [a, b, c, y],
        [500],
    )
    signed = b.view(np.int8).reshape(-1, 4).astype(np.int32)
    for got, kind in zip(y, (np.int8, np.uint8), strict=True):
        assert (got == c + (a.view(kind).reshape(-1, 4) * signed).sum(axis=1)).all()


def test_small_functions(run) -> None:
    rng = np.random.default_rng()
    x = np.concatenate([rng.standard_normal(60) * 100, [0.5, 1.5, -0.5, 2.5]]).astype(np.float32)
    rng.shuffle(x)
    whole, y = np.empty(64, np.int32), np.empty((4, 64), np.float32)
    run(
        """XPU_KERNEL(xpu::global<const float> x, xpu::global<int> w, xpu::global<float> y) {
            const int t = xpu::thread();
            const int64_t big = 1;
            w[t] = xpu::round_to_int(x[t]) + xpu::min(big << 40, 0);
            w[t] += xpu::max(-3, -big) + xpu::abs(-1);
            y[t] = xpu::fma(x[t], x[t], -2.0f);
            y[64 + t] = xpu::min(x[t], 0.25f);
            y[128 + t] = xpu::max(__builtin_nanf(""), x[t]) + xpu::min(x[t], __builtin_nanf(""));
            y[192 + t] = xpu::abs(x[t]);
        }""",
        [x, whole, y],
    )
    assert (whole == np.rint(x)).all()
    assert (y[0] == (x.astype(np.float64) ** 2 - 2).astype(np.float32)).all()
    assert (y[1] == np.minimum(x, 0.25)).all()
    assert np.isnan(y[2]).all()
    assert (y[3] == np.abs(x)).all()
