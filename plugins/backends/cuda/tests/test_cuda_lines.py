"""Products with lines that a block shares: `wgmma` on sm_90a, elsewhere each warp by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from xpu.spec import CompiledCode, KernelUnit
from xpu.testing import shipped_units

LINES = "multiply_async"
PENDING = 2  # products of a warp that may be on their way while the next operand is made


def of_shipped() -> Iterator[KernelUnit]:
    """The kernels of the tree that share lines, with x and y of the widest types."""
    for unit in shipped_units("simt"):
        includes = "".join(unit.includes.values())
        is_narrow = any(name.startswith(("XPU_X_", "XPU_Y_")) for name in unit.defines)
        if LINES in includes and unit.defines.get("XPU_WIDEN") == "2" and not is_narrow:
            yield unit


@pytest.fixture(scope="module")
def units() -> list[KernelUnit]:
    units = list(of_shipped())
    if not units:
        pytest.skip("no plugin here has a kernel that shares lines")
    return units


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


def test_elsewhere_each_warp_multiplies_for_itself(compiler, units) -> None:
    [code] = compiler.compile(units[:1], "sm_90", deadline_s=120)
    assert isinstance(code, CompiledCode), code
    kinds = {each.instruction.partition(".")[0] for each in code.operations if each.places}
    assert kinds == {"mma"}
