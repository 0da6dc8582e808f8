"""Every kernel of the tree in the dialect `simt` compiles, with no device, for one target at least.

The kernels of one source take turns at the targets, so that every target has one of each source;
of those with activations or results of 16 bits one of each engine is there, the types in turn. With
``XPU_TEST_ALL_KERNELS=1`` all of them for all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import attrs
import pytest

from xpu.spec import CompiledCode, KernelUnit
from xpu.testing import shipped_units
from xpu.testing.surroundings import Suite

DIALECT = "simt"
TARGETS = ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
NARROW = "sm_80"  # the least that is asked of a target


def wanted(target: str, units: Sequence[KernelUnit]) -> Sequence[KernelUnit]:
    if os.environ.get("XPU_TEST_ALL_KERNELS"):
        return units
    sources: dict[str, list[KernelUnit]] = {}
    narrow: dict[object, dict[object, KernelUnit]] = {}
    for unit in units:
        types = frozenset(name for name in unit.defines if name.startswith(("XPU_X_", "XPU_Y_")))
        if types:
            engine = (unit.text, unit.defines.get("XPU_WIDEN"))
            narrow.setdefault(engine, {}).setdefault(types, unit)
        else:
            sources.setdefault(unit.text, []).append(unit)
    turn, turns = TARGETS.index(target), len(TARGETS)
    chosen = [one for same in sources.values() for one in same[turn % len(same) :: turns]]
    if target == NARROW:
        alike = [list(same.values()) for same in narrow.values()]
        chosen += [same[place % len(same)] for place, same in enumerate(alike)]
    return chosen


@pytest.mark.slow
class TestShipped(Suite):
    @pytest.mark.parametrize("target", TARGETS)
    def test_kernels_compile_with_all_their_figures(
        self, compiler, figures, target, tmp_path
    ) -> None:
        units = wanted(target, shipped_units(DIALECT))
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
            # What is spilled lies on the stack.
            assert facts.spill_bytes == 0 or facts.stack_bytes > 0, unit.kernel
        # Last, for where there is no such reader the rest is tested all the same.
        for unit, code in zip(units, results, strict=True):
            facts, path = code.facts, tmp_path / "kernel.cubin"
            path.write_bytes(code.code)
            read = (facts.registers, facts.stack_bytes, facts.static_shared_bytes)
            assert attrs.astuple(figures(path, target)) == read, unit.kernel

    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.skipif(
        not os.environ.get("XPU_TEST_ALL_KERNELS"), reason="half a second for each kernel"
    )
    def test_spills_and_operations_are_in_the_disassembly(
        self, compiler, vendor, target, tmp_path
    ) -> None:
        sources: dict[str, KernelUnit] = {}
        for unit in shipped_units(DIALECT):
            sources.setdefault(unit.text, unit)
        units = tuple(sources.values())
        for unit, code in zip(units, compiler.compile(units, target, deadline_s=120), strict=True):
            path = tmp_path / "kernel.cubin"
            path.write_bytes(code.code)
            text = vendor("nvdisasm", "-c", path)
            has_local = re.search(r"\b(STL|LDL)\b", text) is not None
            assert has_local == (code.facts.stack_bytes > 0), unit.kernel
            # The assembler may unroll what it is given, but leaves out no kind and adds none.
            kinds = set(re.findall(r"\b([HI]MMA|HGMMA|IDP)\.", text))
            listed = [each for each in code.operations if each.places is not None]
            assert kinds == {_kind(each.instruction) for each in listed}, unit.kernel


def _kind(instruction: str) -> str:
    if instruction.startswith("dp"):
        return "IDP"
    if instruction.startswith("wgmma"):
        return "HGMMA"
    return "IMMA" if ".s8." in instruction else "HMMA"
