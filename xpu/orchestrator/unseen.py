"""A family considered for a part that is not here: from its facts alone, nothing built."""

from __future__ import annotations

from xpu.errors import XpuConfigError
from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, Family, Problem
from xpu.orchestrator.considering import considered
from xpu.registry import Registry
from xpu.settings import Settings


def considered_by_facts(
    registry: Registry,
    settings: Settings,
    family: Family,
    problem: Problem,
    facts: DeviceFacts,
    dialect: str | None = None,
) -> ShapeFilter:
    """Return the filter's word on a family's members for the device that facts describe.

    What the code needs is absent, and prunes nothing.

    Parameters
    ----------
    dialect
        The one whose members are considered; None: all, each launched as in its first one.

    Raises
    ------
    XpuConfigError
        The design cannot serve the problem.
    """
    reason = registry.design_of(family).check_problem(problem, family.constants)
    if reason:
        raise XpuConfigError(f"family {family.name!r}, problem {problem.key}: {reason}")
    default = None if dialect is None else family.default_for(dialect)
    shapes = ShapeFilter(family.name, facts, problem, rules=settings.rules, default=default)
    for member in family.members:
        spoken = dialect or next(iter(member.dialects or ()), None)
        if dialect is not None and not member.speaks(dialect):
            continue
        considered(registry, shapes, family, member, spoken)
    return shapes
