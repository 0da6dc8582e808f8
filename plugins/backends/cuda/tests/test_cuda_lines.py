"""Products with lines that a block shares: `wgmma` on sm_90a, elsewhere each warp by itself."""

from __future__ import annotations

import re

import pytest

from xpu.spec import CompiledCode, KernelUnit
from xpu.testing import shipped_units

PENDING = 2  # products of a warp that may be on their way while the next operand is made


@pytest.fixture(scope="module")
def units() -> list[KernelUnit]:
    """Of each format the last shipped kernel that shares lines, with x and y of the widest types:
    it has the largest tile, and so the fewest registers to spare."""
    tiles = [unit for unit in shipped_units("simt") if "XPU_WIDEN" in unit.defines]
    if not tiles:  # the tests run without a plugin's folder, too
        pytest.skip("no plugin that is installed here has tiles: the family kquant is not there")
    narrow = ("XPU_X_", "XPU_Y_")
    last = {
        tuple(name for name in unit.defines if "FORMAT" in name): unit
        for unit in tiles
        if unit.defines["XPU_WIDEN"] == "2" and not any(d.startswith(narrow) for d in unit.defines)
    }
    assert len(last) == 3, "Q4_K, Q5_K and Q6_K have tiles that share lines"
    return list(last.values())


def test_a_warpgroup_multiplies_and_waits_for_none_but_what_it_has_to(
    compiler, vendor, units, tmp_path
) -> None:
    for unit, code in zip(units, compiler.compile(units, "sm_90a", deadline_s=120), strict=True):
        assert isinstance(code, CompiledCode), code
        assert code.facts.spill_bytes == 0, unit.kernel
        rows = unit.defines["XPU_TILE_M"]
        [product] = [each for each in code.operations if each.places is not None]
        assert product.instruction == f"wgmma.mma_async.sync.aligned.m64n{rows}k16.f32.f16.f16"
        path = tmp_path / "kernel.cubin"
        path.write_bytes(code.code)
        text = vendor("nvdisasm", "-c", path)
        assert len(re.findall(rf"\bHGMMA\.64x{rows}x16\.F32", text)) == product.places, unit.kernel
        # Where ptxas finds that registers are touched while they are multiplied, it waits for each.
        waits = re.findall(r"\bWARPGROUP\.DEPBAR\.LE gsb0, 0x(\d+)", text)
        assert waits.count(str(PENDING)) == product.places, unit.kernel
        assert waits.count("0") == 1, unit.kernel


GIVEN = {"XPU_THREADS": 128, "XPU_SHARED_ALIGNMENT": 1024}
SIZES = (1, 2, 4, 8)  # of 16 lines
EACH = """XPU_KERNEL(xpu::global<const uint8_t> x, xpu::global<float> y) {{
    XPU_DYNAMIC_SHARED(ELEMENT, lines);
    xpu::matrix_a<ELEMENT, 16, 16, 16> a;
    for (int w = 0; w < a.count; ++w) a[w] = x.load<uint32_t>(w * 4);
    {}
}}"""
OF_EACH = """{{
        xpu::accumulator<float, 16, 16, 16> c[{n}];
        for (int j = 0; j < {n}; ++j) xpu::fill(c[j], 0.0f);
        xpu::multiply_async(c, a, lines, 16);
        xpu::multiply_end(c);
        for (int j = 0; j < {n}; ++j)
            for (int i = 0; i < 8; ++i) y[xpu::thread() + 128 * (8 * j + i)] = c[j][i];
    }}"""


@pytest.mark.parametrize(("element", "named"), [("half", "f16"), ("bfloat16", "bf16")])
def test_every_number_of_lines_has_an_instruction(compiler, unit, element, named) -> None:
    text = EACH.format("".join(OF_EACH.format(n=n) for n in SIZES))
    [code] = compiler.compile(
        [unit(text, ELEMENT=f"xpu::{element}", **GIVEN)], "sm_90a", deadline_s=60
    )
    assert isinstance(code, CompiledCode), code
    found = {each.instruction for each in code.operations if each.places is not None}
    shapes = (f"wgmma.mma_async.sync.aligned.m64n{16 * n}k16.f32.{named}.{named}" for n in SIZES)
    assert found == set(shapes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"XPU_THREADS": 64}, "128 threads of a block"),
        ({"XPU_SHARED_ALIGNMENT": 16}, "define XPU_SHARED_ALIGNMENT as 1024"),
    ],
)
@pytest.mark.parametrize("target", ["sm_90", "sm_90a"])
def test_what_a_part_could_not_multiply_is_refused_for_all(
    compiler, unit, target, given, said
) -> None:
    text = EACH.format(OF_EACH.format(n=1))
    made = unit(text, ELEMENT="xpu::half", **{**GIVEN, **given})
    [error] = compiler.compile([made], target, deadline_s=60)
    assert said in str(error)


def test_a_group_that_is_demoted_multiplies_in_software(compiler, unit) -> None:
    """A shape that no part has: all matrices of 16 x 16 are those of the software tier then."""
    more = "xpu::accumulator<float, 16, 16, 64> other; xpu::fill(other, 0.0f); y[0] = other[0];"
    text = EACH.format(OF_EACH.format(n=1) + more)
    [code] = compiler.compile([unit(text, ELEMENT="xpu::half", **GIVEN)], "sm_90a", deadline_s=60)
    assert isinstance(code, CompiledCode), code
    assert not [each for each in code.operations if each.places is not None]


TOUCHED = """XPU_KERNEL(xpu::global<const uint8_t> x, xpu::global<float> y, int64_t n) {
    XPU_DYNAMIC_SHARED(xpu::half, lines);
    xpu::accumulator<float, 16, 16, 16> c[2];
    for (int j = 0; j < 2; ++j) xpu::fill(c[j], 0.0f);
    for (int64_t i = 0; i < n; ++i) {
        xpu::matrix_a<xpu::half, 16, 16, 16> a;
        for (int w = 0; w < a.count; ++w) a[w] = x.load<uint32_t>(i * 64 + w * 4);
        xpu::multiply_async(c, a, lines, 0);
        BETWEEN
    }
    xpu::multiply_end(c);
    for (int i = 0; i < 8; ++i) y[i * 128 + xpu::thread()] = c[0][i] + c[1][i];
}"""


@pytest.mark.parametrize(
    ("between", "is_said"), [("c[0][0] += 1.0f;", True), ("xpu::multiply_wait<0>();", False)]
)
def test_sums_that_are_touched_too_early_are_said(compiler, unit, caplog, between, is_said) -> None:
    kernel = unit(TOUCHED.replace("BETWEEN", between), **GIVEN)
    [code] = compiler.compile([kernel], "sm_90a", deadline_s=60)
    assert isinstance(code, CompiledCode), code
    said = [record.getMessage() for record in caplog.records if record.name == "xpu"]
    assert any("waits for the one before" in each for each in said) is is_said, said


def test_elsewhere_each_warp_multiplies_for_itself(compiler, units) -> None:
    [code] = compiler.compile(units[:1], "sm_90", deadline_s=120)
    assert isinstance(code, CompiledCode), code
    kinds = {each.instruction.partition(".")[0] for each in code.operations if each.places}
    assert kinds == {"mma"}
