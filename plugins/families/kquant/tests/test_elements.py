"""Rounding to 16 bits and back, against what defines the types."""

from __future__ import annotations

import numpy as np
import pytest

from xpu_family_kquant.elements import ELEMENTS


def nearest_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round by division into whole steps of each number's own size, ties to even."""
    wide = values.astype(np.float64)
    _, exponent = np.frexp(wide)
    step = np.exp2(np.maximum(exponent - 8, -133).astype(np.float64))
    return np.asarray((np.rint(wide / step) * step).astype(np.float32))


def test_bfloat16_is_the_nearest_ties_to_even(rng: np.random.Generator) -> None:
    element = ELEMENTS["bfloat16"]
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32)
    bits[:1000] = bits[:1000] & 0xFFFF0000 | 0x8000  # ties
    values = bits.view(np.float32)
    values = values[np.isfinite(values) & (np.abs(values) < 3e38)]
    made = element.widened(element.rounded(values))
    assert np.array_equal(made, nearest_bfloat16(values))
    assert (np.abs(made - values.astype(np.float64)) <= element.allowed(made)).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_what_is_not_finite_or_too_large(kind: str) -> None:
    element = ELEMENTS[kind]
    most = np.float32(element.most)
    below = np.nextafter(most, np.float32(0))
    given = np.array([np.nan, np.inf, -np.inf, most, -most, below, 0.0], np.float32)
    made = element.widened(element.rounded(given))
    assert np.isnan(made[0])
    assert made[1:5].tolist() == [np.inf, -np.inf, np.inf, -np.inf]
    assert np.isfinite(made[5:]).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_what_rounding_may_cost_is_bounded_and_reached(kind: str, rng: np.random.Generator) -> None:
    element = ELEMENTS[kind]
    values = (rng.standard_normal(100_000) * 10.0 ** rng.integers(-9, 4, 100_000)).astype(
        np.float32
    )
    made = element.widened(element.rounded(values)).astype(np.float64)
    shares = np.abs(made - values) / element.allowed(made)
    assert 0.9 < shares.max() <= 1.0
