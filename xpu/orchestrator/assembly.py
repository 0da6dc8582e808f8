"""From a family and a problem to a filter over built members.

What can be ruled without compiling is ruled first, so that a member which cannot run is
never built and the cap counts only those that can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from xpu.adaptor import Adaptor, Built
from xpu.buckets import bucket_problem
from xpu.choice import Proofs
from xpu.errors import XpuBuildError, XpuConfigError
from xpu.filter import ShapeFilter
from xpu.model import (
    DeviceFacts,
    Family,
    KernelFacts,
    Member,
    MemberResult,
    Problem,
    ShapeCandidate,
    Verdict,
)
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Design, Launch


@attrs.frozen
class Assembled:
    """A filter that has considered a family's members, and the code of those built."""

    family: Family
    design: Design
    problem: Problem
    filter: ShapeFilter
    built: Mapping[str, Built]
    launches: Mapping[str, Launch]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The problem's sizes in the order in which the kernel takes them."""
        return tuple(self.problem.sizes[name] for name in self.design.problem)

    def launch(self, member: str) -> Launch:
        """Return how a member is launched on the problem."""
        return self.launches[member]

    def verdict(self, member: str) -> Verdict | None:
        """Return a member's verdict; None when it never reached the rules."""
        return next((v for v in self.filter.verdicts if v.candidate.name == member), None)

    def serves(self, member: str) -> bool:
        """Whether a member is built and survives."""
        verdict = self.verdict(member)
        return member in self.built and verdict is not None and verdict.is_survivor


class Assembly:
    """Considers families on one device."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        facts: DeviceFacts,
        adaptor: Adaptor,
        proofs: Proofs,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.facts = facts
        self.adaptor = adaptor
        self.proofs = proofs

    @property
    def dialect(self) -> str:
        """The dialect that the backend takes."""
        return self.adaptor.backend.dialect

    def problem(self, family: Family, sizes: Mapping[str, int]) -> Problem:
        """Return the problem that sizes name, in the family's order.

        Raises
        ------
        XpuConfigError
            A size is missing, unknown or not one that the design can serve.
        """
        try:
            problem = Problem(**sizes).ordered(family.problem)
        except XpuConfigError as cause:
            raise XpuConfigError(f"family {family.name!r}: {cause}") from None
        reason = self.registry.design(family.design).check_problem(problem, family.constants)
        if reason:
            raise XpuConfigError(f"family {family.name!r}, problem {problem.key}: {reason}")
        return problem

    def bucketed(self, family: Family, problem: Problem) -> Problem | None:
        """Return the problem whose answer serves a problem; None when it is out of bucket.

        A bucket that the design cannot serve (a size that must be a multiple, rounded) is
        no place to measure: the problem is then its own bucket.
        """
        rounded = bucket_problem(problem, family.buckets, self.settings.buckets)
        if rounded is None:
            return None
        design = self.registry.design(family.design)
        return problem if design.check_problem(rounded, family.constants) else rounded

    def rule_out(self, family: Family, problem: Problem) -> Mapping[str, Verdict]:
        """Return every member's verdict by what is known without compiling."""
        shapes = self._filter(family, problem)
        return {
            member.name: shapes.consider(self._candidate(family, member, problem, None))
            for member in family.for_dialect(self.dialect)
        }

    def buildable(self, family: Family, problem: Problem) -> tuple[str, ...]:
        """Name the members to build: those not ruled out, in declared order, to the cap."""
        names = [
            name for name, verdict in self.rule_out(family, problem).items() if verdict.is_survivor
        ]
        return tuple(names[: family.cap])

    def is_built(self, family: Family, names: Collection[str]) -> bool:
        """Whether the code of all the named members is there already."""
        members = [member for member in family.members if member.name in names]
        found = self.adaptor.recall(family, members, self.adaptor.native_target())
        return all(code is not None for code in found.values())

    def assemble(
        self, family: Family, problem: Problem, build: Collection[str] | None = None
    ) -> Assembled:
        """Build the named members (None: all that may be) and consider the whole family.

        A member that is not built is considered by what is known without its code.
        """
        verdicts = self.rule_out(family, problem)
        eligible = [name for name, verdict in verdicts.items() if verdict.is_survivor]
        wanted = eligible[: family.cap] if build is None else [n for n in eligible if n in build]
        members = [member for member in family.members if member.name in wanted]
        results = self.adaptor.build(family, members, self.adaptor.native_target())
        shapes = self._filter(family, problem)
        built: dict[str, Built] = {}
        for member in family.for_dialect(self.dialect):
            result = results.get(member.name)
            aside = self._aside(member, result, capped=build is None and member.name in eligible)
            if aside is not None:
                shapes.set_aside(aside)
                continue
            if isinstance(result, Built):
                built[member.name] = result
            facts = result.facts if isinstance(result, Built) else KernelFacts()
            shapes.consider(self._candidate(family, member, problem, facts.code_hash), facts)
        return self._assembled(family, problem, shapes, built)

    def _assembled(
        self, family: Family, problem: Problem, shapes: ShapeFilter, built: Mapping[str, Built]
    ) -> Assembled:
        design = self.registry.design(family.design)
        launches = {
            member.name: design.launch(self.dialect, member.parameters, problem)
            for member in family.members
            if member.name in built
        }
        return Assembled(family, design, problem, shapes, built, launches)

    def _aside(
        self, member: Member, result: Built | XpuBuildError | None, *, capped: bool
    ) -> MemberResult | None:
        """Say why a member does not reach the rules; None when it does."""
        if isinstance(result, XpuBuildError):
            return MemberResult(member.name, status="failed", note=str(result))
        if result is None:
            return MemberResult(member.name, status="capped") if capped else None
        proof = self.proofs.find(result.manifest.code_hash)
        if proof is None or proof.status == "well":
            return None
        again = f"; delete {proof.path} to try it again" if proof.path else ""
        return MemberResult(member.name, status=proof.status, note=f"{proof.note}{again}")

    def _filter(self, family: Family, problem: Problem) -> ShapeFilter:
        return ShapeFilter(
            family.name,
            self.facts,
            problem,
            rules=self.settings.rules,
            default=family.default_for(self.dialect),
        )

    def _candidate(
        self, family: Family, member: Member, problem: Problem, code_hash: str | None
    ) -> ShapeCandidate:
        parameters = dict(member.parameters)
        launch = self.registry.design(family.design).launch(self.dialect, parameters, problem)
        if launch.block is not None:
            parameters.setdefault("threads", launch.block[0] * launch.block[1] * launch.block[2])
        if launch.dynamic_shared_bytes:
            parameters.setdefault("dynamic_shared_bytes", launch.dynamic_shared_bytes)
        return ShapeCandidate.of(member.name, parameters, code_hash)
