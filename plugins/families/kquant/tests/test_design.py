"""The designs as the core sees them: shapes, checks, data and the judgement of results."""

from __future__ import annotations

import numpy as np
import pytest

from xpu.errors import XpuConfigError
from xpu.model import Problem
from xpu.spec import Design
from xpu_family_kquant import plugin, reference
from xpu_family_kquant.design import BlocksToGroups, QGemmTile, QMatVec

DESIGNS = (QGemmTile(), QMatVec())
CONSTANTS = {"format": "q6_k"}


@pytest.fixture(params=DESIGNS, ids=lambda design: design.name)
def design(request: pytest.FixtureRequest) -> Design:
    found: Design = request.param
    return found


def test_the_door_brings_both() -> None:
    assert [design.name for design in plugin.xpu_designs()] == ["qgemm_tile", "qmatvec"]


def test_sources_hold_all_that_they_include(design: Design) -> None:
    preparation = design.preparation
    assert preparation is not None
    for source in (design.source("c"), preparation.source("c")):
        text = source.text + "".join(source.includes.values())
        named = {line.split('"')[1] for line in text.splitlines() if line.startswith('#include "')}
        assert named - {"xpu_c.h"} <= set(source.includes)


def test_another_dialect_is_refused(design: Design) -> None:
    with pytest.raises(XpuConfigError, match="simt"):
        design.source("simt")


def test_shapes_and_sizes(design: Design) -> None:
    problem = Problem(m=3, n=17, k=512)
    assert design.shapes(problem, CONSTANTS) == {"weights": (17, 420), "x": (3, 512), "y": (3, 17)}
    assert design.operations(problem) == 2 * 3 * 17 * 512
    preparation = BlocksToGroups()
    assert preparation.sizes((17, 420), CONSTANTS) == (17, 512)
    assert preparation.prepared_bytes((17, 420), CONSTANTS) == 32 * 420


def test_what_cannot_be_served_is_said(design: Design) -> None:
    assert design.check_problem(Problem(m=0, n=1, k=256), CONSTANTS) == ""
    assert "k = 300" in design.check_problem(Problem(m=1, n=1, k=300), CONSTANTS)
    assert design.check_constants(CONSTANTS) == ""
    assert "q8_0" in design.check_constants({"format": "q8_0"})
    assert "format" in design.check_constants({})


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
