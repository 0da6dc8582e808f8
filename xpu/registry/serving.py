"""Whether a family takes a problem, and whether it can in a dialect: known without compiling.

Of a family of routes both are asked of each route. The orchestrator, the planner of probes and
the command line ask here before anything is built.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from xpu.expressions import Expression
from xpu.model import Family, Problem, Route
from xpu.registry.registry import Registry
from xpu.spec.design import Design, Preparation


def why_not(registry: Registry, family: Family, problem: Problem) -> str:
    """Return why a family cannot serve a problem; the empty text when it can.

    A family of routes can when one of them takes it.
    """
    if not family.routes:
        return registry.design_of(family).check_problem(problem, family.constants)
    reasons = {route.family.name: turned_away(registry, route, problem) for route in family.routes}
    if not all(reasons.values()):
        return ""
    return f"no route takes it: {'; '.join(f'{name}: {why}' for name, why in reasons.items())}"


def turned_away(registry: Registry, route: Route, problem: Problem) -> str:
    """Return why a route takes no part on a problem; the empty text when it does.

    One whose `when` is absent (a division by 0) takes none.
    """
    if route.when is not None:
        scope = {f"problem.{name}": size for name, size in problem.sizes.items()}
        holds = _expression(route.when).evaluate(scope)
        if not holds:
            return f"{route.when} {'is absent' if holds is None else 'does not hold'}"
    return why_not(registry, route.family, problem)


def speaks(registry: Registry, family: Family, dialect: str) -> bool:
    """Whether a family has members, and its design a source, in a dialect."""
    if family.routes:
        return any(speaks(registry, route.family, dialect) for route in family.routes)
    own = registry.design(family.design).dialects()
    has_source = dialect in own or (family.design, dialect) in registry.kernel_sources
    return has_source and bool(family.for_dialect(dialect))


def staging_of(design: Design, dialect: str, member: Mapping[str, int]) -> Sequence[Preparation]:
    """Return what runs before a member's launches, by a source of the design's own."""
    return design.staging(dialect, member) if dialect in design.dialects() else ()


def routes_in(registry: Registry, family: Family, dialect: str) -> tuple[Route, ...]:
    """Return the routes of a family that serve in a dialect, in declared order."""
    return tuple(route for route in family.routes if speaks(registry, route.family, dialect))


def arithmetic_of(registry: Registry, family: Family, dialect: str) -> dict[str, str | None]:
    """Return the arithmetic of each member in a dialect; empty where the family has no source."""
    if not speaks(registry, family, dialect):
        return {}
    if family.routes:
        return {route.family.name: None for route in routes_in(registry, family, dialect)}
    design = registry.design_of(family)
    members = family.for_dialect(dialect)
    return {each.name: design.arithmetic(dialect, each.parameters) for each in members}


@functools.lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text)
