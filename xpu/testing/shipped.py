"""Every kernel of the plugins that are here, in one dialect: for tests of a compiler half.

A backend whose dialect others write kernels in compiles them all with it, for whatever targets.
"""

from __future__ import annotations

from collections.abc import Iterator

from xpu.adaptor.units import member_unit, preparation_unit, staging_unit
from xpu.model import Family
from xpu.orchestrator import settings_for
from xpu.registry import Registry, default_registry, staging_of
from xpu.spec import CalibrationDesign, KernelUnit


def shipped_units(dialect: str) -> tuple[KernelUnit, ...]:
    """Return the kernels of all members, stagings, preparations and calibrations.

    Each once: families share preparations. In the order of families and their members.
    """
    registry = default_registry()
    found: dict[object, KernelUnit] = {}
    for unit in (*_of_families(registry, dialect), *_of_calibrations(registry, dialect)):
        found.setdefault(
            (unit.entry, unit.text, unit.max_threads, *sorted(unit.defines.items())), unit
        )
    return tuple(found.values())


def _of_families(registry: Registry, dialect: str) -> Iterator[KernelUnit]:
    for family in settings_for(registry).families.values():
        source = registry.source_for(family.design, dialect)
        if source is None or family.routes:
            continue
        design = registry.design_of(family)
        for member in family.members:
            if not member.dialects or dialect in member.dialects:
                if source.routine is None:
                    yield member_unit(family, design, source, member)
                for staging in staging_of(design, dialect, member.parameters):
                    yield staging_unit(family, member, staging, dialect)
        preparation = registry.preparation_for(family.design, dialect)
        if preparation is not None:
            yield preparation_unit(family, preparation, design.preparation)


def _of_calibrations(registry: Registry, dialect: str) -> Iterator[KernelUnit]:
    for name, design in registry.designs.items():
        source = registry.source_for(name, dialect)
        if isinstance(design, CalibrationDesign) and source is not None:
            family = Family(name, name, design.problem, members=design.members)
            for member in family.for_dialect(dialect):
                yield member_unit(family, design, source, member)
