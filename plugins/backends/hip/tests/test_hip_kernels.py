"""Every kernel of the tree in the dialect `simt` compiles for every target, with no device.

A member of every source for each target, another one each time: that takes half a minute of two
cores. With ``XPU_TEST_ALL_KERNELS=1`` all of them for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest

from xpu.adaptor.units import macros, member_unit, preparation_unit, staging_unit, symbol
from xpu.orchestrator import settings_for
from xpu.registry import default_registry
from xpu.spec import CalibrationDesign, CompiledCode, KernelUnit
from xpu.testing.surroundings import Suite

DIALECT = "simt"
TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")


def members() -> Iterator[KernelUnit]:
    registry = default_registry()
    for family in settings_for(registry).families.values():
        source = registry.source_for(family.design, DIALECT)
        if source is None or family.routes:
            continue
        for member in family.members:
            if not member.dialects or DIALECT in member.dialects:
                if source.routine is None:
                    yield member_unit(family, registry.design_of(family), source, member)
                for staging in registry.staging_for(family, DIALECT, member.parameters):
                    yield staging_unit(family, member, staging, DIALECT)
        preparation = registry.preparation_for(family.design, DIALECT)
        if preparation is not None:
            own = registry.design_of(family).preparation
            yield preparation_unit(family, preparation, own and own.constants)
    for name, design in registry.designs.items():
        source = registry.source_for(name, DIALECT)
        if isinstance(design, CalibrationDesign) and source is not None:
            for member in design.members:
                kernel, entry = f"{name}.{member.name}", symbol("xpu", name, member.name)
                defines = macros(member.parameters)
                yield KernelUnit(kernel, entry, source.text, source.includes, defines)


def wanted(target: str) -> Sequence[KernelUnit]:
    """Return the kernels to compile, each once: families share preparations."""
    found: dict[object, KernelUnit] = {}
    for unit in members():
        found.setdefault((unit.entry, unit.text, *sorted(unit.defines.items())), unit)
    if os.environ.get("XPU_TEST_ALL_KERNELS"):
        return tuple(found.values())
    sources: dict[str, list[KernelUnit]] = {}
    for unit in found.values():
        sources.setdefault(unit.text, []).append(unit)
    turn = TARGETS.index(target)
    return [same[turn * len(same) // len(TARGETS)] for same in sources.values()]


@pytest.mark.slow
class TestShipped(Suite):
    @pytest.mark.parametrize("target", TARGETS)
    def test_kernels_compile_with_all_their_figures(self, compiler, target) -> None:
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
            threads = unit.defines.get("XPU_THREADS", str(facts.pinned_block))
            assert threads == str(facts.pinned_block), f"{unit.kernel}: {facts}"
