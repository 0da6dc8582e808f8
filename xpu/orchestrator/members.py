"""The members of a family that has a design, as a service asks for them.

`xpu.orchestrator.routes` answers the same questions for a family of routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from xpu.model import Family, Problem
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.served import Served

if TYPE_CHECKING:
    from xpu.orchestrator.routes import Routes


class Members:
    """Members considered, built where that is needed."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    def one(self, family: Family, problem: Problem, name: str, _serving: str = "") -> Assembled:
        """Build one member and consider it."""
        return self._assembly.assemble(family, problem, build=[name])

    def in_turn(
        self, family: Family, problem: Problem, _memory: str
    ) -> Iterator[tuple[str, Assembled]]:
        """Yield members one by one, the default first, no more built than are asked for."""
        # Not to the cap: it bounds what a trial builds, and the default may stand behind it.
        names = self._assembly.eligible(family, problem)
        default = family.default_for(self._assembly.dialect)
        for name in sorted(names, key=lambda name: name != default):
            yield name, self.one(family, problem, name)

    def all(self, family: Family, problem: Problem, _memory: str) -> Assembled:
        """Build and consider all, to the cap."""
        return self._assembly.assemble(family, problem)

    def forced(self, family: Family, problem: Problem, name: str, _memory: str) -> Assembled:
        """Build and consider the member that an override names."""
        assembled = self.one(family, problem, name)
        if family.member(name) and not assembled.serves(name):
            # All are built, so that the refusal proposes none that cannot serve either.
            everyone = [each.name for each in family.members]
            return self._assembly.assemble(family, problem, build=everyone)
        return assembled

    def recalled(
        self, family: Family, problem: Problem, _known: Callable[[Family, Problem], Any]
    ) -> Assembled | None:
        """Consider all as they were built before; None where one was never compiled."""
        return self._assembly.recalled(family, problem)

    def to_time(
        self, family: Family, problem: Problem, _memory: str, **_how: Any
    ) -> tuple[Assembled, tuple[Served, ...]]:
        """Build and consider all that a trial compares; no answer of other families is in it."""
        return self._assembly.assemble(family, problem), ()


def fitted(
    members: Members | Routes, family: Family, problem: Problem, served: Served
) -> Served | None:
    """Return an answer of a bucket for the real sizes: its member, else the next best timed.

    None when none of them fits.
    """
    if served.assembled.problem == problem:
        return served
    timed = [member for member in served.result.members if member.median_ns is not None]
    timed.sort(key=lambda member: member.median_ns or 0.0)
    serving = {member.name: member.serving for member in served.result.members}
    for name in dict.fromkeys([served.result.member, *(member.name for member in timed)]):
        assembled = members.one(family, problem, name, serving.get(name, ""))
        if assembled.serves(name):
            return Served(assembled, attrs.evolve(served.result, member=name), served.is_final)
    return None
