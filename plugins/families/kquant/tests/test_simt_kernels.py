"""The kernels in the dialect `simt` on the emulator, at both wave widths, against the reference.

Every launch runs under the emulator's checks: a read of what nothing wrote, a store behind an
end, a race or a missing barrier ends it with a fault.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.model import Problem
from xpu.spec import CompiledCode, Design, KernelUnit, Launch, host_dtype
from xpu_family_kquant import reference, simt
from xpu_family_kquant.elements import ELEMENTS, element_of
from xpu_family_kquant.plugin import xpu_designs

emulator = pytest.importorskip("xpu_backend_emulator.backend")

DESIGNS = {design.name: design for design in xpu_designs()}
FORMATS = ("q4_k", "q5_k", "q6_k")
WAVES = (32, 64)
BFLOAT16_LEAST = 2.0**-126
HALF_RMS, HALF_MAX = 5e-4, 4e-3  # what rounding activations to half leaves

Parameters = Mapping[str, int]
Constants = Mapping[str, str]


class Machine:
    """Compiles and launches; each unit once in a session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._backends = {wave: emulator.EmulatorBackend(wave) for wave in WAVES}
        self._compiler = self._backends[32].compiler()
        self._kernels: dict[object, Any] = {}

    def kernel(
        self, design: Design, part: str, constants: Constants, wave: int, member: Parameters
    ) -> Any:
        from_: Any = design.preparation if part == "prepare" else design
        if part.startswith("stage"):
            staged = {f"stage_{it.argument}": it for it in design.staging("simt", member)}
            from_ = staged[part]
        source = from_.source("simt")
        given = member if part == design.name else {}
        defines = {f"XPU_{name.upper()}": str(value) for name, value in given.items()}
        defines |= {f"XPU_{name}_{value}".upper(): "1" for name, value in constants.items()}
        if from_ is not design:  # of a member it is a parameter
            defines["XPU_THREADS"] = str(_block_of(from_, constants))
        key = (source.text, *defines.items(), wave)  # many members have one staging
        if key not in self._kernels:
            unit = KernelUnit(part, "kernel", source.text, source.includes, defines)
            name = hashlib.sha256(repr((key, source.includes)).encode()).hexdigest()
            path = self._folder / f"simt-{name[:16]}.so"
            if not path.exists():
                [code] = self._compiler.compile([unit], f"wave{wave}", deadline_s=120)
                assert isinstance(code, CompiledCode), code
                with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                    file.write(code.code)
                Path(file.name).replace(path)
            self._kernels[key] = self._backends[wave].open().load(path, "kernel")
        return self._kernels[key]

    def launch(
        self, kernel: Any, launch: Launch, arrays: list[Any], sizes: tuple[int, ...]
    ) -> None:
        self._backends[32].open().launcher(kernel, launch, arrays, sizes)()


def _block_of(preparation: Any, constants: Constants) -> int:
    """Return the threads that it is launched with, as the compile step finds them."""
    width = reference.row_bytes(constants["format"], 256)
    shape = (16, width if preparation.argument == "weights" else 256)
    block = preparation.launch("simt", shape, constants).block
    return int(np.prod(block))


class Product:
    """One member: prepares weights and multiplies, into memory that nothing has written."""

    def __init__(
        self, machine: Machine, design: Design, constants: Constants, wave: int, m: Parameters
    ):
        self._machine, self._constants, self.member = machine, constants, m
        self.design = design.for_constants(constants)
        self._device = emulator.EmulatorBackend(wave).open()
        self._prepare = machine.kernel(design, "prepare", {"format": constants["format"]}, wave, {})
        routine = design.source("simt").routine
        self._kernel = (
            self._device.routine(routine)
            if routine
            else machine.kernel(design, design.name, constants, wave, m)
        )
        self._stages = [
            (it, machine.kernel(design, f"stage_{it.argument}", constants, wave, m))
            for it in design.staging("simt", m)
        ]

    def __call__(self, rows: np.ndarray, x: np.ndarray, launch: Launch | None = None) -> np.ndarray:
        device, preparation = self._device, self.design.preparation
        assert preparation is not None
        constants, of_y = self._constants, element_of(self._constants, "y")
        (m, k), n = x.shape, len(rows)
        prepared = device.allocate(preparation.prepared_bytes(rows.shape, constants), poisoned=True)
        raw = device.from_host(rows)
        first = preparation.launch("simt", rows.shape, constants)
        sizes = preparation.sizes(rows.shape, constants)
        self._machine.launch(self._prepare, first, [raw, prepared], sizes)
        dtype = host_dtype(of_y.name)
        y = device.allocate(m * n * dtype.itemsize, poisoned=True)
        launch = launch or self.design.launch("simt", self.member, Problem(m=m, n=n, k=k))
        taken = {"weights": prepared, "x": device.from_host(x)}
        raws = {"weights": rows.shape, "x": x.shape}
        for staging, kernel in self._stages:
            name = staging.argument
            taken[name] = self._staged(staging, kernel, taken[name], raws[name])
        self._machine.launch(self._kernel, launch, [*taken.values(), y], (m, n, k))
        assert not m or (np.asarray(y.owner.written) == 1).all(), "every result is written"
        return of_y.widened(device.to_host(y).view(dtype).reshape(m, n))

    def _staged(self, staging: Any, kernel: Any, given: Any, raw: tuple[int, ...]) -> Any:
        constants = self._constants
        nbytes = staging.prepared_bytes(raw, constants)
        staged = self._device.allocate(nbytes, poisoned=True)
        launch = staging.launch("simt", raw, constants)
        self._machine.launch(kernel, launch, [given, staged], staging.sizes(raw, constants))
        return staged


@pytest.fixture(scope="module")
def machine(kept: Path) -> Machine:
    return Machine(kept)


@pytest.fixture(scope="module")
def product(machine: Machine) -> Callable[..., Product]:
    def make(
        design: str, weight_format: str, wave: int, parameters: Parameters, **types: str
    ) -> Product:
        constants = {"format": weight_format, **types}
        return Product(machine, DESIGNS[design], constants, wave, parameters)

    return make


def shipped() -> list[tuple[str, str, str, Parameters]]:
    """Design, format, name and parameters of every `simt` member of the shipped configuration."""
    config = Path(__file__).parents[4] / "config" / "families.toml"
    found = []
    for entry in tomllib.loads(config.read_text("utf-8"))["families"].values():
        for member in entry.get("members", ()):
            if entry["design"] in DESIGNS and "simt" in member.get("dialects", ["simt"]):
                numbers = {name: value for name, value in member.items() if type(value) is int}
                name = f"{entry['design']}-{entry['constants']['format']}-{member['name']}"
                found.append((name, entry["design"], entry["constants"]["format"], numbers))
    return found


def members() -> list[Any]:
    """Every Q4_K member, at the width that the kit does not run them at."""
    return [
        pytest.param(design, weight_format, 64, numbers, id=f"{name}-64")
        for name, design, weight_format, numbers in shipped()
        if weight_format == "q4_k"
    ]


# One member of each kind, for what does not depend on the shape of a tile.
KINDS: Mapping[str, tuple[str, Parameters]] = {
    name.replace("-q4_k-", "-"): (design, numbers)
    for name, design, _, numbers in shipped()
    if name in ("qgemm_tile-q4_k-t32x64", "qgemm_tile-q4_k-h32x32", "qgemm_tile-q4_k-a64x128",
                "qmatvec-q4_k-two_row256", "qmatvec_cols-q4_k-c8x2", "qgemm_library-q4_k-gemm")
}  # fmt: skip


# Tiles lie in the lanes by the width of a wave; the other kinds take turns at the widths.
KINDS_AND_WAVES = [
    (kind, wave)
    for turn, kind in enumerate(KINDS)
    for wave in (WAVES if KINDS[kind][0] == "qgemm_tile" else WAVES[turn % 2 :][:1])
]


@pytest.fixture(params=KINDS_AND_WAVES, ids=str)
def multiply_any(request: pytest.FixtureRequest, product: Callable[..., Product]) -> Any:
    (kind, wave) = request.param
    design, numbers = KINDS[kind]
    return lambda weight_format: product(design, weight_format, wave, numbers)


def matrices(fmt: str, m: int, n: int, k: int, rng: np.random.Generator) -> Any:
    x = rng.standard_normal((m, k), dtype=np.float32)
    return reference.random_blocks(fmt, n, k, rng), x


@pytest.mark.parametrize(("design", "weight_format", "wave", "parameters"), members())
def test_every_member(
    design: str,
    weight_format: str,
    wave: int,
    parameters: Parameters,
    product: Callable[..., Product],
    assert_close: Callable[..., None],
    rng: np.random.Generator,
) -> None:
    multiply = product(design, weight_format, wave, parameters)
    is_tile = design == "qgemm_tile"
    for m, n, k in ((37, 83, 512), (1, 1, 256)) if is_tile else ((1, 83, 1280), (7, 17, 768)):
        rows, x = matrices(weight_format, m, n, k, rng)
        y = multiply(rows, x)
        assert_close(weight_format, rows, x, y)
        if parameters.get("widen"):
            errors = reference.errors(weight_format, rows, x, y)
            assert np.sqrt(np.mean(errors**2)) <= HALF_RMS
            assert errors.max() <= HALF_MAX
    if is_tile:  # the emulator is fast enough to be used
        given = matrices(weight_format, 64, 128, 512, rng)
        start = time.perf_counter()
        multiply(*given)
        assert time.perf_counter() - start < 2.0


# Lines and weights on their way in other numbers than shipped; in the last a wave has two groups.
WITH_LINES = [
    ({"tile_m": 16, "tile_n": 128, "threads": 256, "unroll": 1, "stages": 3, "slots": 2}, "q5_k"),
    ({"tile_m": 32, "tile_n": 128, "threads": 128, "unroll": 2, "stages": 8, "slots": 3}, "q6_k"),
]


@pytest.mark.parametrize(("shape", "weight_format"), WITH_LINES, ids=["least", "more"])
def test_lines_and_weights_on_their_way(
    shape: Parameters,
    weight_format: str,
    product: Callable[..., Product],
    rng: np.random.Generator,
) -> None:
    member = {**shape, "tile_k": 256, "widen": simt.LINES}
    multiply = product("qgemm_tile", weight_format, 32, member)
    for m, n, k in ((37, 83, 512), (1, 1, 256), (50, 17, 2304)):
        rows, x = matrices(weight_format, m, n, k, rng)
        errors = reference.errors(weight_format, rows, x, multiply(rows, x))
        assert np.sqrt(np.mean(errors**2)) <= HALF_RMS
        assert errors.max() <= HALF_MAX


def narrow() -> list[Any]:
    """Of each source four Q4_K members, if there are so many, in both types at both widths; of
    other formats one member of each, x and y of different types."""
    sources: dict[object, list[Any]] = {}
    for _, design, weight_format, numbers in shipped():
        if weight_format == "q4_k":
            sources.setdefault((design, numbers.get("widen")), []).append((design, numbers))
    pairs = [(32, "float16"), (64, "bfloat16"), (32, "bfloat16"), (64, "float16")]
    found = []
    for its in sources.values():  # a source of fewer members than pairs has each several times
        for turn, (wave, kind) in enumerate(pairs):
            design, numbers = its[turn % len(its)]
            found.append((design, "q4_k", wave, numbers, kind, kind))
    for turn, (design, numbers) in enumerate(KINDS.values()):
        types = ("bfloat16", "float16") if turn % 2 else ("float16", "bfloat16")
        found += [(design, fmt, WAVES[turn % 2], numbers, *types) for fmt in ("q5_k", "q6_k")]
    # A library gives its results in float32.
    return [(*it[:-1], "float32") if it[0] == "qgemm_library" else it for it in found]


@pytest.mark.parametrize(("design", "weight_format", "wave", "parameters", "x", "y"), narrow())
def test_activations_and_results_of_16_bits(
    design: str,
    weight_format: str,
    wave: int,
    parameters: Parameters,
    x: str,
    y: str,
    product: Callable[..., Product],
    rng: np.random.Generator,
) -> None:
    multiply = product(design, weight_format, wave, parameters, x=x, y=y)
    is_tile = design == "qgemm_tile"
    for m, n, k in ((37, 83, 512), (1, 1, 256)) if is_tile else ((7, 83, 1280), (1, 17, 256)):
        rows, floats = matrices(weight_format, m, n, k, rng)
        given = ELEMENTS[x].rounded(floats)
        results = multiply(rows, given)
        rounded = ELEMENTS[x].widened(given)
        assert not np.array_equal(rounded, floats)
        errors = reference.errors(weight_format, rows, rounded, results, ELEMENTS[y])
        few = 2.0 if min(errors.size, m * k // 256) < 64 else 1.0
        limits = (HALF_RMS, HALF_MAX) if parameters.get("widen") else (
            reference.ERROR_RMS * few, reference.ERROR_MAX)  # fmt: skip
        assert np.sqrt(np.mean(errors**2)) <= limits[0]
        assert errors.max() <= limits[1]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_rows_of_16_bits_may_be_of_any_size(
    kind: str, product: Callable[..., Product], rng: np.random.Generator
) -> None:
    """Least and largest numbers of the type, a NaN and an infinity: each keeps to its row."""
    element, wave = ELEMENTS[kind], {"float16": 32, "bfloat16": 64}[kind]
    least, most = {"float16": (1e-6, 1e4), "bfloat16": (1e-39, 1e36)}[kind]
    for design, numbers in KINDS.values():
        if design == "qgemm_library":  # it does not scale rows
            continue
        multiply = product(design, "q4_k", wave, numbers, x=kind, y=kind)
        rows, x = matrices("q4_k", 7, 40, 512, rng)
        x[1] *= np.float32(least)
        x[2] *= np.float32(most)
        x[3, 70], x[5, 9] = np.nan, np.inf
        given = element.rounded(x)
        y, given = multiply(rows, given), element.widened(given)
        sound = np.isfinite(given).all(axis=1)
        assert not np.isfinite(y[~sound]).any()
        # Of the largest row a float16 is infinite, as it has to be.
        assert np.isinf(y[2]).any() == (kind == "float16")
        errors = reference.errors("q4_k", rows, given[sound], y[sound], element)
        assert errors.max() <= reference.ERROR_MAX


@pytest.mark.parametrize("weight_format", ["q4_k", "q6_k"])
def test_a_bad_row_harms_no_other(
    weight_format: str, multiply_any: Callable[[str], Product], rng: np.random.Generator
) -> None:
    multiply = multiply_any(weight_format)
    rows, x = matrices(weight_format, 7, 40, 512, rng)
    rows[7] = 0
    before = multiply(rows, x)
    for at, value in ((1, np.nan), (3, np.inf), (6, -np.inf)):
        x[at, at * 70] = value
    after = multiply(rows, x)
    bad = ~np.isfinite(x).all(axis=1)
    assert not np.isfinite(after[bad]).any()
    assert np.array_equal(after[~bad], before[~bad])


@pytest.mark.parametrize("weight_format", FORMATS)
def test_zeros_give_exactly_zero(
    weight_format: str, multiply_any: Callable[[str], Product], rng: np.random.Generator
) -> None:
    rows, x = matrices(weight_format, 5, 37, 256, rng)
    rows[[0, 20, 36]] = 0
    x[[0, 4]] = 0
    y = multiply_any(weight_format)(rows, x)
    assert not y[:, [0, 20, 36]].any()
    assert not y[[0, 4]].any()
    assert y[1:4, 1:20].all()


@pytest.mark.parametrize("size", [1e-42, 1e-30, 1e-5, 3e4, 1e5, 1e30, 1e36])
def test_the_size_of_a_row_does_not_matter(
    size: float, multiply_any: Callable[[str], Product], rng: np.random.Generator
) -> None:
    multiply = multiply_any("q4_k")
    if size < BFLOAT16_LEAST and multiply.design.name == "qgemm_library":
        pytest.skip("a library sums what bfloat16 has left of it")
    rows, x = matrices("q4_k", 4, 40, 512, rng)
    x[1] *= np.float32(size)
    y = multiply(rows, x)
    exact = reference.product("q4_k", rows, x)[1]
    # A result below the least normal float32 is a multiple of 2^-149.
    assert np.abs(y[1] - exact).max() <= 0.04 * np.abs(exact).max() + 2.0**-149


def test_the_largest_rows_give_no_nan(
    multiply_any: Callable[[str], Product], rng: np.random.Generator
) -> None:
    multiply = multiply_any("q6_k")
    if multiply.design.name == "qgemm_library":
        pytest.skip("a library does not scale rows: its sums become infinite midway")
    rows, x = matrices("q6_k", 3, 40, 512, rng)
    x[:] = np.copysign(np.finfo(np.float32).max, x)
    assert not np.isnan(multiply(rows, x)).any()


def test_the_scales_of_blocks_may_be_anything(
    multiply_any: Callable[[str], Product],
    assert_close: Callable[..., None],
    rng: np.random.Generator,
) -> None:
    """Weights of 1e5 and of 1e-6 pass through, half multiplications included."""
    rows, x = matrices("q4_k", 6, 40, 768, rng)
    blocks = rows.reshape(-1, reference.BLOCK_BYTES["q4_k"])
    for at, size in ((0, 6e4), (2, 6e4), (4 * 144, 6e-8)):
        blocks[at // 144 :: 5, at % 144 : at % 144 + 2] = np.array([size], "<f2").view(np.uint8)
    assert_close("q4_k", rows, x, multiply_any("q4_k")(rows, x))


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("m", [1, 3, 16])
def test_ggmls_blocks_in_simt(
    weight_format: str,
    m: int,
    product: Callable[..., Product],
    assert_close: Callable[..., None],
    pytestconfig: pytest.Config,
) -> None:
    path = Path(pytestconfig.rootpath, "tests", "vectors", "ggml_kquant_96x512.npz")
    design, numbers = next(kind for kind in KINDS.values() if kind[0] == "qgemm_tile")
    with np.load(path) as vectors:
        blocks, x = vectors[f"{weight_format}_blocks"], vectors[f"x_{m}"]
    assert_close(weight_format, blocks, x, product(design, weight_format, 32, numbers)(blocks, x))


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize("widen", [0, 1, simt.LINES])
def test_parts_of_k_add_up(
    widen: int, wave: int, product: Callable[..., Product], rng: np.random.Generator
) -> None:
    [(design, numbers)] = [
        (design, numbers) for design, numbers in KINDS.values() if numbers.get("widen") == widen
    ]
    multiply = product(design, "q4_k", wave, numbers)
    rows, x = matrices("q4_k", 35, 70, 1280, rng)
    x[2] *= np.float32(1e30)
    whole = multiply(rows, x)
    problem = Problem(m=35, n=70, k=1280)
    told = "resident_splits" if widen == simt.LINES else "splits"
    for splits, parts in ((3, 3), (9, 5)):
        launch = simt.tile_launch({**numbers, told: splits}, problem)
        assert launch.grid[2] == parts
        y = multiply(rows, x, launch)
        scale = np.abs(whole).max(axis=1, keepdims=True)
        assert (np.abs(y - whole) <= 1e-5 * scale).all()


def test_no_rows_launch_nothing(product: Callable[..., Product], rng: np.random.Generator) -> None:
    for design, numbers in KINDS.values():
        rows, x = matrices("q4_k", 0, 16, 256, rng)
        assert product(design, "q4_k", 32, numbers)(rows, x).shape == (0, 16)


@pytest.mark.parametrize("wave", WAVES)
def test_a_launch_asks_for_no_more_shared_memory_than_is_used(
    wave: int, product: Callable[..., Product], rng: np.random.Generator
) -> None:
    given = matrices("q6_k", 8, 64, 1024, rng)  # the format that needs most, all stages
    for design, numbers in KINDS.values():
        if design != "qgemm_tile":
            continue
        full = simt.tile_launch(numbers, Problem(m=8, n=64, k=1024))
        short = Launch(full.grid, full.block, full.dynamic_shared_bytes - 32)
        with pytest.raises(XpuLaunchException, match="out-of-bounds"):
            product(design, "q6_k", wave, numbers)(*given, short)
