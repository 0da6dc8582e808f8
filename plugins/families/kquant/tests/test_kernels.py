"""The kernels against the reference: formats, instruction sets, members, odd sizes and bad rows."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpu_family_kquant import reference
from xpu_family_kquant.elements import ELEMENTS

FORMATS = ("q4_k", "q5_k", "q6_k")
ENGINES: Mapping[str, Mapping[str, int]] = {
    "direct": {"tile_m": 4, "tile_n": 32, "tile_k": 256, "unroll": 4, "widen": 0},
    "panels": {"tile_m": 24, "tile_n": 48, "tile_k": 512, "unroll": 8, "widen": 0},
    "wide": {"tile_m": 40, "tile_n": 80, "tile_k": 512, "unroll": 8, "widen": 1},
}
VECTOR = {"rows": 2, "prefetch": 1024, "chunk": 4}
# The one that takes longest to compile is, on the machine's own instruction set, the member i8x16,
# which is compiled anyway.
OWN = {**ENGINES, "direct": {"tile_m": 8, "tile_n": 16, "tile_k": 256, "unroll": 8, "widen": 0}}


def cpu_has(*features: str) -> bool:
    if platform.machine() != "x86_64":
        return False
    text = Path("/proc/cpuinfo").read_text("utf-8")
    return set(features) <= set(text.partition("flags")[2].partition("\n")[0].split())


def instruction_sets() -> dict[str, tuple[str, ...]]:
    """Compiler flags of every path that this machine can run."""
    sets: dict[str, tuple[str, ...]] = {"native": ("-march=native",)}
    if platform.machine() != "x86_64":
        return sets
    sets["sse2"] = ("-march=x86-64",)
    sets["plain"] = ("-march=x86-64", "-DKQUANT_PLAIN")
    if cpu_has("avx2", "fma", "f16c"):
        sets["avx2"] = ("-march=x86-64-v3",)
    if cpu_has("avx2", "avx_vnni"):
        sets["avx-vnni"] = ("-march=x86-64-v3", "-mavxvnni")
    if cpu_has("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"):
        sets["avx512"] = ("-march=x86-64-v4",)
    if cpu_has("avx512_vnni", "avx512vl"):
        sets["avx512-vnni"] = ("-march=x86-64-v4", "-mavx512vnni")
    return sets


SETS = instruction_sets()

# Paths whose decoding is another one's: Q5_K, whose steps Q4_K and Q6_K both have, is left out.
ALIKE = {"sse2", "avx-vnni", "avx512", "avx512-vnni"}
PATHS = [
    pytest.param(flags, weight_format, id=f"{name}-{weight_format}")
    for name, flags in SETS.items()
    for weight_format in FORMATS
    if weight_format != "q5_k" or name not in ALIKE
]


def members() -> list[Any]:
    """Every member of every family on these designs, from the shipped configuration."""
    config = Path(__file__).parents[4] / "config" / "families.toml"
    families = tomllib.loads(config.read_text("utf-8"))["families"]
    found = []
    for family, entry in families.items():
        for member in entry.get("members", ()):
            if entry["design"] in {"qgemm_tile", "qmatvec"} and "c" in member.get("dialects", "c"):
                numbers = {name: value for name, value in member.items() if isinstance(value, int)}
                values = (entry["design"], entry["constants"]["format"], numbers)
                found.append(pytest.param(*values, id=f"{family}-{member['name']}"))
    return found


def matrices(
    weight_format: str, m: int, n: int, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    return (
        reference.random_blocks(weight_format, n, k, rng),
        rng.standard_normal((m, k), dtype=np.float32),
    )


@pytest.mark.parametrize(("design", "weight_format", "parameters"), members())
def test_every_member(
    design: str,
    weight_format: str,
    parameters: dict[str, int],
    product: Callable[..., Any],
    assert_close: Callable[..., None],
    rng: np.random.Generator,
) -> None:
    multiply = product(design, weight_format, parameters)
    for m, n, k in ((1, 35, 1024), (9, 550, 512), (41, 33, 768)):
        rows, x = matrices(weight_format, m, n, k, rng)
        assert_close(weight_format, rows, x, multiply(rows, x))


def engines_on_paths() -> list[Any]:
    """Every engine on every path; the one that takes longest to compile has one format alone
    where decoding is another path's."""
    return [
        pytest.param(*path.values, engine, id=f"{path.id}-{engine}")
        for path in PATHS
        for engine in (*ENGINES, "matvec")
        if not (engine == "direct" and path.id in {f"{name}-q4_k" for name in ALIKE})
    ]


@pytest.mark.parametrize(("flags", "weight_format", "engine"), engines_on_paths())
def test_every_instruction_set(
    flags: tuple[str, ...],
    weight_format: str,
    engine: str,
    product: Callable[..., Any],
    assert_close: Callable[..., None],
    rng: np.random.Generator,
) -> None:
    design = "qmatvec" if engine == "matvec" else "qgemm_tile"
    engines = OWN if flags == SETS["native"] else ENGINES
    multiply = product(design, weight_format, engines.get(engine, VECTOR), flags)
    is_exact = engine == "wide" and flags != SETS["native"]
    for m, n, k in ((1, 1, 256), (2, 17, 512), (7, 16, 768), (53, 95, 256), (3, 130, 1280)):
        rows, x = matrices(weight_format, m, n, k, rng)
        assert_close(weight_format, rows, x, multiply(rows, x), is_exact=is_exact)


@pytest.mark.parametrize("engine", [*ENGINES, "matvec"])
@pytest.mark.parametrize(
    ("flags", "weight_format", "x", "y"),
    [
        (SETS["native"], "q4_k", "float16", "float16"),
        (SETS["native"], "q6_k", "bfloat16", "bfloat16"),
        # The conversions of machines that have no instruction for them.
        (SETS.get("plain", ("-DKQUANT_PLAIN",)), "q5_k", "float16", "bfloat16"),
    ],
)
def test_activations_and_results_of_16_bits(
    flags: tuple[str, ...],
    weight_format: str,
    x: str,
    y: str,
    engine: str,
    product: Callable[..., Any],
    rng: np.random.Generator,
) -> None:
    design = "qmatvec" if engine == "matvec" else "qgemm_tile"
    multiply = product(design, weight_format, ENGINES.get(engine, VECTOR), flags, x=x, y=y)
    for m, n, k in ((1, 17, 512), (53, 95, 256), (3, 130, 1280)):
        rows, floats = matrices(weight_format, m, n, k, rng)
        # Rows down to the least numbers of the type, and with results too large for it.
        floats *= np.geomspace(1e-7, 1e4, m, dtype=np.float32)[:, None]
        given = ELEMENTS[x].rounded(floats)
        results, rounded = multiply(rows, given), ELEMENTS[x].widened(given)
        errors = reference.errors(weight_format, rows, rounded, results, ELEMENTS[y])
        assert np.sqrt(np.mean(errors**2)) <= reference.ERROR_RMS * (2 if m < 50 else 1)
        assert errors.max() <= reference.ERROR_MAX
        if m > 1:
            assert np.isinf(results[-1]).any() == (y == "float16")


@pytest.fixture(params=[*ENGINES, "matvec"])
def multiply_any(request: pytest.FixtureRequest, product: Callable[..., Any]) -> Callable[..., Any]:
    """Every engine on this machine's own instruction set, of a format given later."""
    design = "qmatvec" if request.param == "matvec" else "qgemm_tile"
    return lambda weight_format: product(design, weight_format, OWN.get(request.param, VECTOR))


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("m", [1, 3, 16])
def test_ggmls_blocks(
    weight_format: str,
    m: int,
    multiply_any: Callable[..., Any],
    assert_close: Callable[..., None],
    pytestconfig: pytest.Config,
) -> None:
    path = Path(pytestconfig.rootpath, "tests", "vectors", "ggml_kquant_96x512.npz")
    with np.load(path) as vectors:
        blocks, x = vectors[f"{weight_format}_blocks"], vectors[f"x_{m}"]
    assert_close(weight_format, blocks, x, multiply_any(weight_format)(blocks, x))


@pytest.mark.parametrize("weight_format", FORMATS)
def test_a_bad_row_harms_no_other(
    weight_format: str, multiply_any: Callable[..., Any], rng: np.random.Generator
) -> None:
    multiply = multiply_any(weight_format)
    rows, x = matrices(weight_format, 21, 40, 512, rng)
    rows[7] = 0
    before = multiply(rows, x)
    for at, value in ((2, np.nan), (3, np.inf), (17, -np.inf)):
        x[at, at * 9] = value
    after = multiply(rows, x)
    bad = ~np.isfinite(x).all(axis=1)
    assert not np.isfinite(after[bad]).any()
    assert np.array_equal(after[~bad], before[~bad])


@pytest.mark.parametrize("weight_format", FORMATS)
def test_zeros_give_exactly_zero(
    weight_format: str, multiply_any: Callable[..., Any], rng: np.random.Generator
) -> None:
    rows, x = matrices(weight_format, 5, 37, 256, rng)
    rows[[0, 20, 36]] = 0
    x[[0, 4]] = 0
    y = multiply_any(weight_format)(rows, x)
    assert not y[:, [0, 20, 36]].any()
    assert not y[[0, 4]].any()
    assert y[1:4, 1:20].all()


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("size", [1e-42, 1e-30, 1e30, 1e36])
def test_the_size_of_a_row_does_not_matter(
    weight_format: str, size: float, multiply_any: Callable[..., Any], rng: np.random.Generator
) -> None:
    rows, x = matrices(weight_format, 4, 40, 512, rng)
    x[1] *= np.float32(size)
    y = multiply_any(weight_format)(rows, x)
    exact = reference.product(weight_format, rows, x)[1]
    # A result below the least normal float32 is a multiple of 2^-149.
    assert np.abs(y[1] - exact).max() <= 0.04 * np.abs(exact).max() + 2.0**-149


@pytest.mark.parametrize("weight_format", FORMATS)
def test_the_largest_rows_give_no_nan(
    weight_format: str, multiply_any: Callable[..., Any], rng: np.random.Generator
) -> None:
    rows, x = matrices(weight_format, 3, 40, 512, rng)
    x[:] = np.copysign(np.finfo(np.float32).max, x)
    assert not np.isnan(multiply_any(weight_format)(rows, x)).any()


@pytest.mark.parametrize("weight_format", FORMATS)
def test_results_do_not_depend_on_the_workers(
    weight_format: str, multiply_any: Callable[..., Any], rng: np.random.Generator
) -> None:
    multiply = multiply_any(weight_format)
    rows, x = matrices(weight_format, 30, 200, 512, rng)
    one = multiply(rows, x, workers=1)
    for workers in (2, 5, 40):
        assert np.array_equal(multiply(rows, x, workers=workers), one)


def test_no_rows_are_no_work(multiply_any: Callable[..., Any], rng: np.random.Generator) -> None:
    rows, x = matrices("q4_k", 0, 16, 256, rng)
    assert multiply_any("q4_k")(rows, x).shape == (0, 16)
