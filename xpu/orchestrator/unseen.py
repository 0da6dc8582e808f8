"""A family considered for a part that is not here: from its facts alone, nothing built."""

from __future__ import annotations

from xpu.building.considering import considered
from xpu.errors import XpuConfigError
from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, Family, MemberResult, Problem, Route, ShapeCandidate
from xpu.registry import Registry, routes_in, turned_away, why_not
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

    What the code needs is absent, and prunes nothing. A route is considered by its family's
    default, or the first of its members that survive.

    Parameters
    ----------
    dialect
        The one whose members are considered; None: all, each launched as in its first one.

    Raises
    ------
    XpuConfigError
        The design cannot serve the problem.
    """
    if reason := why_not(registry, family, problem):
        raise XpuConfigError(f"family {family.name!r}, problem {problem.key}: {reason}")
    default = None if dialect is None else family.default_for(dialect)
    shapes = ShapeFilter(family.name, facts, problem, rules=settings.rules, default=default)
    for route in family.routes if dialect is None else routes_in(registry, family, dialect):
        why = turned_away(registry, route, problem)
        own = why or considered_by_facts(registry, settings, route.family, problem, facts, dialect)
        _consider_route(shapes, route, own)
    for member in () if family.routes else family.members:
        spoken = dialect or next(iter(member.dialects or ()), None)
        if dialect is not None and not member.speaks(dialect):
            continue
        considered(registry, shapes, family, member, spoken)
    return shapes


def _consider_route(shapes: ShapeFilter, route: Route, own: ShapeFilter | str) -> None:
    """Consider a route by the member that would serve it first; `own` is why it takes no part."""
    name = route.family.name
    refusal = own if isinstance(own, str) else own.refusal()
    if refusal or isinstance(own, str):
        shapes.set_aside(MemberResult(name, "pruned", note=refusal))
        return
    kept = [verdict.candidate for verdict in own.survivors]
    first = next((each for each in kept if each.name == own.default), kept[0])
    shapes.consider(ShapeCandidate.of(name, first.parameters))
