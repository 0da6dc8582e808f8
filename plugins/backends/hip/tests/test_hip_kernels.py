"""Every kernel of the tree in the dialect `simt` compiles for every target, with no device.

A member of every source for each target, another one each time: that takes half a minute of two
cores. With ``XPU_TEST_ALL_KERNELS=1`` all of them for all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from xpu.spec import CompiledCode, KernelUnit
from xpu.testing import shipped_units
from xpu.testing.surroundings import Suite

DIALECT = "simt"
TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")


def wanted(target: str) -> Sequence[KernelUnit]:
    """Return the kernels to compile."""
    units = shipped_units(DIALECT)
    if os.environ.get("XPU_TEST_ALL_KERNELS"):
        return units
    sources: dict[str, list[KernelUnit]] = {}
    for unit in units:
        sources.setdefault(unit.text, []).append(unit)
    turn = TARGETS.index(target)
    return [same[turn * len(same) // len(TARGETS)] for same in sources.values()]


@pytest.mark.slow
class TestShipped(Suite):
    @pytest.mark.parametrize("target", TARGETS)
    def test_kernels_compile_with_all_their_figures(
        self, compiler, notes, target, tmp_path
    ) -> None:
        units = wanted(target)
        if not units:
            pytest.skip(f"no plugin here has a kernel in dialect {DIALECT!r}")
        results = compiler.compile(units, target, deadline_s=120)
        failed = [str(result) for result in results if not isinstance(result, CompiledCode)]
        assert not failed, "\n".join(failed)
        for unit, code in zip(units, results, strict=True):
            facts = code.facts
            absent = [
                name
                for name in ("registers", "spill_bytes", "static_shared_bytes", "stack_bytes")
                if getattr(facts, name) is None
            ]
            assert not absent, f"{unit.kernel}: {absent} cannot be read from its code"
            assert unit.max_threads == facts.pinned_block, f"{unit.kernel}: {facts}"
        # Last, for where there is no such reader the rest is tested all the same.
        for unit, code in zip(units, results, strict=True):
            facts, path = code.facts, tmp_path / "kernel.co"
            path.write_bytes(code.code)
            told = notes(path)
            assert facts.registers == max(told["vgpr_count"], 1), unit.kernel
            assert facts.static_shared_bytes == told["group_segment_fixed_size"], unit.kernel
            assert facts.stack_bytes == told["private_segment_fixed_size"], unit.kernel
            stores = told["vgpr_spill_count"]
            assert facts.spill_bytes == min(4 * stores, facts.stack_bytes), unit.kernel
