"""Tiers of matrices over a compiler that is made up: its objects hold the symbols of a source."""

import re

import pytest

from xpu.errors import XpuBuildError
from xpu.model import MatrixShape
from xpu.spec import KernelUnit, in_tiers

NUMBERS = {"int8": 0, "float16": 1, "bfloat16": 2}
SUMS = {"int32": 3, "float32": 4}
WHOLE, HALF, BRAIN = (
    f"{kind}:16x16x16" for kind in ("int8->int32", "float16->float32", "bfloat16->float32")
)
EIGHT = "float16->float32:8x16x16"


class FakeCompiler:
    """Compiles a source that uses some shapes; its sums are native where one of theirs is."""

    def __init__(self, *uses):
        self.uses = [MatrixShape.from_text(text) for text in uses]
        self.units = []

    def compile(self, unit):
        self.units.append(unit)
        listed = re.findall(r"\{(\d+),(\d+),(\d+),(\d+)\},", unit.defines["XPU_MATRIX_SHAPES"])
        native = {tuple(map(int, one)) for one in listed}
        found = set()
        for shape in self.uses:
            sizes = (shape.m, shape.n, shape.k)
            mine = [number for kind, number in NUMBERS.items() if kind == shape.element]
            alike = [0] if shape.sums == "int32" else [1, 2]
            found.add((mine[0], *sizes, (mine[0], *sizes) in native))
            found.add((SUMS[shape.sums], *sizes, any((one, *sizes) in native for one in alike)))
        return b"\0".join(symbol(*one) for one in sorted(found))


def symbol(number, m, n, k, native):
    numbers = "".join(f"Li{value}E" for value in (number, m, n, k))
    return f"\x7fELF _ZN3xpu4simt10matrix_useI{numbers}Lb{int(native)}EE".encode()


def run(uses, shapes):
    compiler = FakeCompiler(*uses)
    unit = KernelUnit("f.m", "k", "", {}, {"XPU_TILE": "4"})
    _, operations = in_tiers(unit, shapes, compiler.compile, lambda code: code)
    return compiler, {each.instruction: each.tier for each in operations}


@pytest.mark.parametrize(
    ("uses", "shapes", "tiers", "compiled"),
    [
        ([WHOLE], [WHOLE], {WHOLE: "native"}, 1),
        ([WHOLE], [], {WHOLE: "software"}, 1),
        ([], [WHOLE], {}, 1),
        # Sums of one tile are added lane by lane: two products of it are one group.
        ([WHOLE, HALF], [HALF], {WHOLE: "software", HALF: "demoted"}, 2),
        # The sums of half and bfloat16 are one type, and lie in one way.
        ([HALF, BRAIN], [HALF], {HALF: "demoted", BRAIN: "software"}, 2),
        # Another M is another group, which stays what it is.
        (
            [WHOLE, HALF, EIGHT],
            [HALF, EIGHT],
            {WHOLE: "software", HALF: "demoted", EIGHT: "native"},
            2,
        ),
        ([EIGHT, WHOLE], [WHOLE], {EIGHT: "software", WHOLE: "native"}, 1),
    ],
)
def test_a_group_has_one_tier(uses, shapes, tiers, compiled):
    compiler, found = run(uses, shapes)
    assert found == tiers
    assert len(compiler.units) == compiled
    assert all(unit.defines["XPU_TILE"] == "4" for unit in compiler.units)


def test_sums_alone_belong_to_a_group():
    """A kernel may keep its results in the layout of sums that it never multiplies."""

    def compile_once(unit):
        has_eight = "{1,8,16,16}" in unit.defines["XPU_MATRIX_SHAPES"]
        return symbol(1, 8, 16, 16, has_eight) + b" " + symbol(3, 8, 16, 32, False)

    unit = KernelUnit("f.m", "k", "", {}, {})
    _, operations = in_tiers(unit, [EIGHT], compile_once, lambda code: code)
    assert [(each.instruction, each.tier) for each in operations] == [(EIGHT, "demoted")]


def test_a_source_that_mixes_tiers_whatever_is_native_is_refused():
    unit = KernelUnit("f.m", "k", "", {}, {})
    code = symbol(0, 16, 16, 16, True) + b" " + symbol(1, 16, 16, 16, False)
    with pytest.raises(XpuBuildError, match="16x16 are of two tiers"):
        in_tiers(unit, [WHOLE], lambda _unit: code, lambda made: made)


def test_the_macro_is_the_dialects_own():
    unit = KernelUnit("f.m", "k", "", {}, {"XPU_MATRIX_SHAPES": "2"})
    with pytest.raises(XpuBuildError, match="XPU_MATRIX_SHAPES, which the dialect gives itself"):
        in_tiers(unit, [], lambda _unit: b"", lambda made: made)
