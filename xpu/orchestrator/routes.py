"""A family of routes: each route takes part by the member that serves its own family.

From answers for the routes' families to one `Assembled`, with a candidate for each route. What
chooses, times, stores and binds then sees a family like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from xpu.errors import XpuBuildError, XpuLaunchException, XpuPluginError
from xpu.model import (
    ChoiceResult,
    Family,
    KernelFacts,
    MemberResult,
    Problem,
    Route,
    ShapeCandidate,
    Status,
    nearest,
)
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.served import Served
from xpu.registry import routes_in, turned_away, why_not

if TYPE_CHECKING:
    from xpu.orchestrator.service import Service
    from xpu.spec.design import Arrays
    from xpu.store import Autotune

Pick = tuple[Assembled, str] | MemberResult
"""A route's family as it was considered and the member that serves there, or why none does."""


@attrs.frozen
class Joined(Assembled):
    """A family of routes, considered; `serving` names the member behind each route."""

    serving: Mapping[str, str] = attrs.field(factory=dict)


def told(assembled: Assembled, result: ChoiceResult) -> ChoiceResult:
    """Return a result that says of each route which member of its family serves there."""
    if not isinstance(assembled, Joined):
        return result
    serving = assembled.serving
    members = result.members or (MemberResult(result.member),)
    named = (attrs.evolve(each, serving=serving.get(each.name, "")) for each in members)
    return attrs.evolve(result, members=tuple(named))


class Routes:
    """The routes of families, as a service asks for members; see `xpu.orchestrator.members`."""

    def __init__(self, assembly: Assembly, service: Service) -> None:
        self._assembly = assembly
        self._service = service

    def one(self, family: Family, problem: Problem, name: str, serving: str = "") -> Assembled:
        """Consider one route through a member of its family, which is built."""
        route = self._named(family, problem, name)
        assembled = self._assembly.assemble(route.family, problem, build=[serving])
        return self._joined(family, problem, {name: (assembled, serving)})

    def in_turn(
        self, family: Family, problem: Problem, memory: str
    ) -> Iterator[tuple[str, Assembled]]:
        """Yield the routes that take part one by one, each through what serves it untimed."""
        for route in self._admitted(family, problem):
            pick = self._untimed(route, problem, memory)
            yield route.family.name, self._joined(family, problem, {route.family.name: pick})

    def all(self, family: Family, problem: Problem, memory: str) -> Assembled:
        """Consider every route that takes part, through what serves it untimed."""
        admitted = self._admitted(family, problem)
        picks = {it.family.name: self._untimed(it, problem, memory) for it in admitted}
        return self._joined(family, problem, picks)

    def forced(self, family: Family, problem: Problem, name: str, memory: str) -> Assembled:
        """Consider the route that an override names, whatever its `when` says.

        Raises
        ------
        XpuLaunchException
            There is no such route, its design cannot serve the problem, or nothing serves in it.
        """
        route = self._named(family, problem, name)
        head = f"{family.name} {problem.key}: the override {name!r} cannot serve"
        if reason := why_not(self._assembly.registry, route.family, problem):
            raise XpuLaunchException(f"{head}: {reason}")
        try:
            served = self._own(route, problem, memory, must_time=False, data=None)
        except (XpuLaunchException, XpuBuildError) as cause:
            raise XpuLaunchException(f"{head}: {cause}") from cause
        return self._joined(family, problem, {name: _pick(served)})

    def recalled(
        self, family: Family, problem: Problem, known: Callable[[Family, Problem], Served | None]
    ) -> Assembled | None:
        """Consider the routes through answers that are known; None where one is not."""
        picks: dict[str, Pick] = {}
        for route in self._admitted(family, problem):
            found = self._tried(route, problem, partial(known, route.family, problem))
            if found is None:
                return None
            picks[route.family.name] = _pick(found)
        return self._joined(family, problem, picks)

    def to_time(
        self,
        family: Family,
        problem: Problem,
        memory: str,
        *,
        must_time: bool,
        data: Arrays | None,
    ) -> tuple[Assembled, tuple[Served, ...]]:
        """Consider the routes through their own choices, and return these, too."""
        own = partial(self._own, problem=problem, memory=memory, must_time=must_time, data=data)
        found = {
            route.family.name: self._tried(route, problem, partial(own, route))
            for route in self._admitted(family, problem)
        }
        picks = {name: _pick(each) for name, each in found.items() if each is not None}
        choices = tuple(each for each in found.values() if isinstance(each, Served))
        return self._joined(family, problem, picks), choices

    def foreseen(
        self, family: Family, problem: Problem, *, memory: str, store: Autotune | None
    ) -> Served | None:
        """Return what is foreseen of a route's own family; None where it may have to be built.

        Raises
        ------
        XpuLaunchException
            Nothing can serve.
        """
        bucketed = self._assembly.bucketed(family, problem)
        if bucketed is None or self._service.is_forced(family):
            return None
        result = self._service.kept(family, bucketed, memory)
        result = result or self._service.foreseen(family, bucketed, memory, store)
        if result is None:
            return None
        if not result.member:
            raise XpuLaunchException(result.note)
        # It is built, for it was recalled: nothing is compiled to consider it here.
        assembled = self._assembly.assemble(family, problem, build=[result.member])
        return Served(assembled, result, True) if assembled.serves(result.member) else None

    def _own(
        self, route: Route, problem: Problem, memory: str, *, must_time: bool, data: Arrays | None
    ) -> Served:
        """Return the choice of a route's own family, by the policy, fitted to the problem."""
        family = route.family
        if self._assembly.bucketed(family, problem) != problem:
            data = None  # it is timed on other sizes
        served = self._service.serve(family, problem, memory=memory, must_time=must_time, data=data)
        return self._service.fitted(family, problem, served, memory)

    def _untimed(self, route: Route, problem: Problem, memory: str) -> Pick:
        ask = partial(self._service.untimed, route.family, problem, memory)
        found = self._tried(route, problem, ask)
        assert found is not None
        return _pick(found)

    def _tried(
        self, route: Route, problem: Problem, ask: Callable[[], Served | None]
    ) -> Served | MemberResult | None:
        """Return what a route's family answers; one that cannot serve costs the others nothing."""
        try:
            return ask()
        except (XpuLaunchException, XpuBuildError, XpuPluginError) as cause:
            if self._service.is_forced(route.family):
                raise  # who forces a member is told that it cannot serve
            is_ruled_out = not self._assembly.eligible(route.family, problem)
            status: Status = "pruned" if is_ruled_out else "failed"
            return MemberResult(route.family.name, status, note=str(cause))

    def _named(self, family: Family, problem: Problem, name: str) -> Route:
        spoken = routes_in(self._assembly.registry, family, self._assembly.dialect)
        route = next((each for each in spoken if each.family.name == name), None)
        if route is None:
            what = (
                f"has no source in {self._assembly.dialect!r}"
                if family.route(name)
                else "is no member"
            )
            hint = nearest(name, [each.family.name for each in spoken])
            raise XpuLaunchException(
                f"{family.name} {problem.key}: the override {name!r} {what}; {hint}"
            )
        return route

    def _admitted(self, family: Family, problem: Problem) -> list[Route]:
        spoken = routes_in(self._assembly.registry, family, self._assembly.dialect)
        return [route for route in spoken if not self._why_not(spoken[0], route, problem)]

    def _why_not(self, first: Route, route: Route, problem: Problem) -> str:
        """Return why a route takes no part; the empty text when it does."""
        registry, dialect = self._assembly.registry, self._assembly.dialect
        designs = (first.family.design, route.family.design)
        # What designs say of their own sources was compared when the configuration was read.
        if any((design, dialect) in registry.kernel_sources for design in designs):
            here, there = (registry.preparation_for(design, dialect) for design in designs)
            if here != there:
                return f"its weights are prepared otherwise than those of {first.family.name!r}"
        return turned_away(registry, route, problem)

    def _joined(self, family: Family, problem: Problem, picks: Mapping[str, Pick]) -> Joined:
        """Join what routes gave. Of the others, those that are turned away are told of."""
        registry, dialect = self._assembly.registry, self._assembly.dialect
        shapes = self._assembly.filter_for(family, problem)
        found: dict[str, tuple[Assembled, str]] = {}
        spoken = routes_in(registry, family, dialect)
        for route in spoken:
            name, why = route.family.name, self._why_not(spoken[0], route, problem)
            pick = picks.get(name, MemberResult(name, "pruned", note=why) if why else None)
            if isinstance(pick, MemberResult):
                shapes.set_aside(pick)
            elif pick is not None and pick[0].serves(pick[1]):
                found[name] = pick
                shapes.consider(*_candidate(name, *pick))
        designs = [assembled.design for assembled, _ in found.values()]
        return Joined(
            family,
            designs[0] if designs else registry.design_of(family),
            problem,
            shapes,
            {name: assembled.built[member] for name, (assembled, member) in found.items()},
            {name: assembled.arm(member) for name, (assembled, member) in found.items()},
            any(self._has_lapsed(*pick) for pick in found.values()),
            {name: member for name, (_, member) in found.items()},
        )

    def _has_lapsed(self, assembled: Assembled, member: str) -> bool:
        proofs = self._assembly.proofs(assembled.family)
        return proofs.is_lapsed(assembled.arm(member).code_hash)


def _pick(found: Served | MemberResult) -> Pick:
    return found if isinstance(found, MemberResult) else (found.assembled, found.result.member)


def _candidate(name: str, assembled: Assembled, member: str) -> tuple[ShapeCandidate, KernelFacts]:
    """Return a route as rules see it: its member's shape and code, under the family's name."""
    verdict = assembled.verdict(member)
    assert verdict is not None
    parameters: dict[str, Any] = dict(verdict.candidate.parameters)
    code_hash, library = verdict.candidate.code_hash, verdict.candidate.library
    candidate = ShapeCandidate(name, code_hash=code_hash, library=library, **parameters)
    return candidate, verdict.kernel
