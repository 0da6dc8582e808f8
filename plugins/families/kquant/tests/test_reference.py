"""The numpy reference against the `gguf` package and against blocks of ggml's own quantiser."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from xpu_family_kquant import reference

FORMATS = ("q4_k", "q5_k", "q6_k")


@pytest.fixture(scope="module")
def vectors(pytestconfig: pytest.Config) -> dict[str, np.ndarray]:
    path = Path(pytestconfig.rootpath, "tests", "vectors", "ggml_kquant_96x512.npz")
    with np.load(path) as file:
        return dict(file)


def finite_noise(weight_format: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks of random bytes whose float16 scales are any finite numbers."""
    size = reference.BLOCK_BYTES[weight_format]
    rows = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in (208,) if weight_format == "q6_k" else (0, 2):
        halves = rng.integers(0, 2**16, n, dtype=np.uint16)
        halves[halves & 0x7C00 == 0x7C00] &= 0x83FF  # infinities and NaNs become denormals
        rows[:, at : at + 2] = halves.astype("<u2").reshape(-1, 1).view(np.uint8)
    return rows


@pytest.mark.parametrize("weight_format", FORMATS)
def test_dequantisation_is_the_packages_bit_for_bit(
    weight_format: str, rng: np.random.Generator
) -> None:
    rows = finite_noise(weight_format, 4096, rng)
    kind = gguf.GGMLQuantizationType[weight_format.upper()]
    theirs = np.asarray(dequantize(rows, kind), np.float32)
    ours = reference.dequantise(weight_format, rows)
    assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("weight_format", FORMATS)
def test_dequantisation_is_ggmls(weight_format: str, vectors: dict[str, np.ndarray]) -> None:
    ours = reference.dequantise(weight_format, vectors[f"{weight_format}_blocks"][:1])[0]
    assert np.array_equal(ours, vectors[f"{weight_format}_dequant_row0"])


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("m", [1, 3, 16])
def test_ggmls_products_are_within_the_limits(
    weight_format: str, m: int, vectors: dict[str, np.ndarray]
) -> None:
    blocks, x = vectors[f"{weight_format}_blocks"], vectors[f"x_{m}"]
    errors = reference.errors(weight_format, blocks, x, vectors[f"{weight_format}_y_{m}"])
    assert np.sqrt(np.mean(errors**2)) <= reference.ERROR_RMS
    assert errors.max() <= reference.ERROR_MAX


def test_the_error_of_nothing_is_nothing_or_infinite() -> None:
    rows = np.zeros((2, 144), np.uint8)
    x = np.ones((1, 256), np.float32)
    errors = reference.errors("q4_k", rows, x, np.array([[0.0, 1.0]], np.float32))
    assert errors.tolist() == [[0.0, np.inf]]


@pytest.mark.parametrize("weight_format", FORMATS)
def test_samples_hold_the_corners(weight_format: str, rng: np.random.Generator) -> None:
    rows = reference.random_blocks(weight_format, 70, 256, rng)
    x = rng.standard_normal((40, 256), dtype=np.float32)
    y = reference.product(weight_format, rows, x).astype(np.float32)
    assert reference.sampled_errors(weight_format, rows, x, y, rng, count=128).max() < 1e-6
    y[-1, -1] += 1e3
    assert reference.sampled_errors(weight_format, rows, x, y, rng, count=128).max() > 1


@pytest.mark.parametrize("weight_format", FORMATS)
def test_random_blocks_are_ordinary_weights(weight_format: str, rng: np.random.Generator) -> None:
    weights = reference.dequantise(
        weight_format, reference.random_blocks(weight_format, 64, 512, rng)
    )
    assert weights.shape == (64, 512)
    assert np.isfinite(weights).all()
    assert 0.05 < weights.std() < 5
    assert abs(weights.mean()) < weights.std() / 4


@pytest.mark.parametrize(("weight_format", "k"), [("q4_k", 0), ("q4_k", 255), ("q8_0", 256)])
def test_rows_that_cannot_be_are_refused(weight_format: str, k: int) -> None:
    with pytest.raises(ValueError, match=r"k = |q8_0"):
        reference.row_bytes(weight_format, k)


@pytest.mark.parametrize(("m", "k"), [(3, 256), (2048, 4096), (3, 1 << 22)])
def test_activations_are_normal_and_rows_are_not_alike(m, k, rng) -> None:
    x = reference.random_activations(m, k, rng)
    assert (x.shape, x.dtype) == ((m, k), np.float32)
    assert x.flags.c_contiguous
    assert x.flags.writeable
    assert abs(float(x.mean())) < 6 / np.sqrt(x.size) * 2
    assert float(x.std()) == pytest.approx(1, abs=0.15)
    assert len({row[:8].tobytes() for row in x}) >= m - 9, "hardly two rows are alike"
    assert not np.array_equal(x, reference.random_activations(m, k, rng))
