"""The designs as the core sees them: shapes, checks, data and the judgement of results."""

from __future__ import annotations

import numpy as np
import pytest

from xpu.errors import XpuConfigError
from xpu.model import Problem
from xpu.spec import GEMM_NT_BF16, Design, Launch
from xpu_family_kquant import plugin, reference, simt
from xpu_family_kquant.design import BlocksToGroups, QGemmTile, QMatVec
from xpu_family_kquant.elements import ELEMENTS
from xpu_family_kquant.library import QGemmLibrary
from xpu_family_kquant.qmatvec_cols import QMatVecCols

DESIGNS = (QGemmTile(), QMatVec(), QMatVecCols(), QGemmLibrary())
CONSTANTS = {"format": "q6_k"}


@pytest.fixture(params=DESIGNS, ids=lambda design: design.name)
def design(request: pytest.FixtureRequest) -> Design:
    found: Design = request.param
    return found


def test_the_door_brings_all() -> None:
    names = [design.name for design in plugin.xpu_designs()]
    assert names == ["qgemm_tile", "qmatvec", "qmatvec_cols", "qgemm_library"]


def test_sources_hold_all_that_they_include(design: Design) -> None:
    preparation = design.preparation
    assert preparation is not None
    for dialect in design.dialects():
        for one in (design, preparation, *design.staging(dialect, {"widen": 1})):
            source = one.source(dialect)
            text = source.text + "".join(source.includes.values())
            lines = [line for line in text.splitlines() if line.startswith('#include "')]
            named = {line.split('"')[1] for line in lines}
            assert named - {"xpu_c.h", "xpu_simt.h"} <= set(source.includes)


def test_another_dialect_is_refused(design: Design) -> None:
    with pytest.raises(XpuConfigError, match=r"'wgsl', only in .*'simt'"):
        design.source("wgsl")


def test_shapes_and_sizes(design: Design) -> None:
    problem = Problem(m=3, n=17, k=512)
    assert design.shapes(problem, CONSTANTS) == {"weights": (17, 420), "x": (3, 512), "y": (3, 17)}
    assert design.operations(problem) == 2 * 3 * 17 * 512
    preparation = BlocksToGroups()
    assert preparation.sizes((17, 420), CONSTANTS) == (17, 512)
    assert preparation.prepared_bytes((17, 420), CONSTANTS) == 32 * (420 + 4)


def test_what_cannot_be_served_is_said(design: Design) -> None:
    assert design.check_problem(Problem(m=1, n=1, k=256), CONSTANTS) == ""
    assert "k = 300" in design.check_problem(Problem(m=1, n=1, k=300), CONSTANTS)
    assert design.check_constants(CONSTANTS) == ""
    assert "q8_0" in design.check_constants({"format": "q8_0"})
    assert "format" in design.check_constants({})
    assert design.check_constants({**CONSTANTS, "x": "bfloat16"}) == ""
    refusal = design.check_constants({**CONSTANTS, "y": "float16"})
    assert ("y = 'float16' is not float32" in refusal) == (design.name == "qgemm_library")
    assert "x = 'half' is none of float32" in design.check_constants({**CONSTANTS, "x": "half"})
    assert "x, y (float32, float16" in design.check_constants({**CONSTANTS, "z": "float16"})


def test_constants_say_the_types_of_x_and_y(design: Design) -> None:
    narrow = design.for_constants({**CONSTANTS, "x": "bfloat16", "y": "float16"})
    assert [it.dtype for it in narrow.arguments] == ["uint8", "bfloat16", "float16"]
    assert [it.dtype for it in design.arguments] == ["uint8", "float32", "float32"]
    assert design.for_constants(CONSTANTS).arguments == design.arguments
    problem = Problem(m=3, n=16, k=256)
    less = design.bytes_touched(problem, CONSTANTS) - narrow.bytes_touched(problem, CONSTANTS)
    assert less == 2 * (3 * 256 + 3 * 16)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize(("widen", "told"), [(1, "splits"), (simt.LINES, "resident_splits")])
def test_parts_of_k_are_added_up_in_float32_alone(kind: str, widen: int, told: str) -> None:
    tile = {"tile_m": 64, "tile_n": 128, "threads": 256, "unroll": 2, "stages": 4, "slots": 2}
    tile |= {"widen": widen, "splits": 7, "resident_splits": 7, told: 2}
    for x, y, parts in ((kind, "float32", 2), ("float32", kind, 1)):
        design = QGemmTile().for_constants({**CONSTANTS, "x": x, "y": y})
        launch = design.launch("simt", tile, Problem(m=65, n=300, k=512))
        assert (launch.grid[2], launch.clears_result) == (parts, parts > 1)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_a_result_of_16_bits_is_judged_by_its_own_rounding(
    kind: str, design: Design, rng: np.random.Generator
) -> None:
    constants, element = {**CONSTANTS, "x": kind, "y": kind}, ELEMENTS[kind]
    problem = Problem(m=4, n=40, k=1024)
    data = design.data(problem, constants, rng)
    x, weights = element.widened(data["x"]), np.asarray(data["weights"], np.uint8)
    exact = reference.product("q6_k", weights, x).astype(np.float32)
    y = element.rounded(exact)
    # The mean of what rounding costs is far beyond what a float32 of the same value may be off.
    assert reference.errors("q6_k", weights, x, element.widened(y)).max() > 1e-4
    assert reference.errors("q6_k", weights, x, element.widened(y), element).max() < 1e-7
    assert design.verify(problem, constants, data, {"y": y}, rng) == ""
    wrong = element.rounded(exact * np.float32(1.1))
    assert "rms" in design.verify(problem, constants, data, {"y": wrong}, rng)
    bad = y.copy()
    bad[1, 2] = 0x7FC0 if kind == "bfloat16" else np.nan
    assert "not finite" in design.verify(problem, constants, data, {"y": bad}, rng)


def test_a_half_is_infinite_where_the_product_is_too_large_and_nowhere_else(
    rng: np.random.Generator,
) -> None:
    design, element = QMatVec(), ELEMENTS["float16"]
    constants, problem = {**CONSTANTS, "y": "float16"}, Problem(m=2, n=30, k=512)
    data = dict(design.data(problem, constants, rng))
    data["x"][1] *= np.float32(1e4)
    y = element.rounded(reference.product("q6_k", data["weights"], data["x"]).astype(np.float32))
    assert np.isinf(y[1]).any()
    assert design.verify(problem, constants, data, {"y": y}, rng) == ""
    y[0, 0] = np.inf
    assert "largest inf" in design.verify(problem, constants, data, {"y": y}, rng)


@pytest.mark.parametrize("m", [0, 17])
def test_a_few_rows_are_one_to_sixteen(m: int) -> None:
    problem = Problem(m=m, n=1, k=256)
    assert f"m = {m}" in QMatVecCols().check_problem(problem, CONSTANTS)
    assert QGemmTile().check_problem(problem, CONSTANTS) == ""
    assert QMatVec().check_problem(problem, CONSTANTS) == ""


def test_launches_cover_the_result() -> None:
    tile = {"tile_m": 64, "tile_n": 128, "threads": 256, "unroll": 2, "stages": 4, "widen": 1}
    problem = Problem(m=65, n=300, k=512)
    panels = 4 * 64 * 144
    assert QGemmTile().launch("simt", tile, problem) == Launch((3, 2, 1), (256, 1, 1), panels)
    parts = QGemmTile().launch("simt", {**tile, "splits": 9}, problem)
    assert parts == Launch((3, 2, 2), (256, 1, 1), panels, clears_result=True)
    vector = {"rows": 2, "prefetch": 1, "threads": 128, "cols": 4}
    assert QMatVec().launch("simt", vector, problem) == Launch(
        (10, 65, 1), (128, 1, 1), 16 * 3360, alignment_bytes=16
    )
    few = Problem(m=5, n=32, k=512)
    assert QMatVecCols().launch("simt", vector, few) == Launch((1, 2, 1), (128, 1, 1), 16 * 3360)
    assert QGemmTile().launch("c", {"tile_m": 4}, problem) == Launch()
    assert QMatVec().launch("c", {"rows": 4}, problem) == Launch()


def test_what_a_library_multiplies_is_staged_in_bfloat16() -> None:
    design = QGemmLibrary()
    assert design.source("simt").routine == GEMM_NT_BF16
    assert design.launch("simt", {}, Problem(m=5, n=33, k=512)) == Launch()
    weights, x = design.staging("simt", {})
    raws = {"weights": (33, 3 * 210), "x": (5, 768)}
    assert [weights.argument, x.argument] == list(raws)
    assert weights.sizes(raws["weights"], CONSTANTS) == (33, 768)
    assert weights.prepared_bytes(raws["weights"], CONSTANTS) == 33 * 768 * 2
    assert weights.launch("simt", raws["weights"], CONSTANTS).grid == (3, 2, 1)
    assert x.sizes(raws["x"], CONSTANTS) == (5, 768)
    assert x.prepared_bytes(raws["x"], CONSTANTS) == 5 * 768 * 2
    assert x.launch("simt", raws["x"], CONSTANTS).grid == (2, 1, 1)


def test_the_right_result_passes_and_wrong_ones_do_not(
    design: Design, rng: np.random.Generator
) -> None:
    problem = Problem(m=4, n=40, k=1024)
    data = design.data(problem, CONSTANTS, rng)
    assert {name: array.shape for name, array in data.items()} == {
        name: shape for name, shape in design.shapes(problem, CONSTANTS).items() if name != "y"
    }
    x, weights = np.asarray(data["x"], np.float32), np.asarray(data["weights"], np.uint8)
    y = reference.product("q6_k", weights, x).astype(np.float32)
    assert design.verify(problem, CONSTANTS, data, {"y": y}, rng) == ""
    assert "rms" in design.verify(problem, CONSTANTS, data, {"y": y * np.float32(1.1)}, rng)
    y[1, 2] = np.nan
    assert "not finite" in design.verify(problem, CONSTANTS, data, {"y": y}, rng)


def test_members_name_the_arithmetic_that_a_calibration_measures() -> None:
    tile, vector = QGemmTile(), QMatVec()
    named = {
        (dialect, widen): tile.arithmetic(dialect, {"widen": widen})
        for dialect in ("c", "simt")
        for widen in (0, 1)
    }
    assert named == {
        ("c", 0): "int8_dot",
        ("c", 1): None,
        ("simt", 0): "int8_matrix",
        ("simt", 1): "half_matrix",
    }
    assert vector.arithmetic("c", {}) == "int8_dot"
