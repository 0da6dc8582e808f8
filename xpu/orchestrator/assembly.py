"""From a family and a problem to a filter over built members.

What can be ruled without compiling is ruled first, so that a member which cannot run is
never built and the cap counts only those that can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from xpu.adaptor import Adaptor, Built, Called
from xpu.buckets import family_bucket
from xpu.building.considering import before_launches, considered, oversized
from xpu.choice import Arm, Proofs, Staging
from xpu.errors import XpuBuildError, XpuConfigError, XpuLaunchException
from xpu.filter import ShapeFilter
from xpu.model import (
    Family,
    Figure,
    Member,
    MemberResult,
    Problem,
    Verdict,
    told_to_launch,
)
from xpu.registry import Registry, is_edited, made_of, why_not
from xpu.settings import Settings
from xpu.spec import Design, Device


@attrs.frozen
class Assembled:
    """A filter that has considered a family's members, and the code of those built.

    `has_lapsed`: one of them was bad before its judge was mended, and is to be tried again.
    """

    family: Family
    design: Design
    problem: Problem
    filter: ShapeFilter
    built: Mapping[str, Built | Called]
    arms: Mapping[str, Arm]
    has_lapsed: bool = False

    def arm(self, member: str) -> Arm:
        """Return a built member's code and how it is launched on the problem."""
        return self.arms[member]

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
        device: Device,
        adaptor: Adaptor,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.facts = device.facts
        self.adaptor = adaptor
        identity = device.identity()
        self._context = f"{identity.get('device', '')} {identity.get('driver', '')}"
        self._proofs: dict[str, Proofs] = {}

    @property
    def dialect(self) -> str:
        """The dialect that the backend takes."""
        return self.adaptor.backend.dialect

    def proofs(self, family: Family) -> Proofs:
        """Return what is known of the code of a family's design, as long as nobody mends it."""
        if family.design not in self._proofs:
            design, backend = self.registry.design(family.design), self.adaptor.backend
            self._proofs[family.design] = Proofs(
                self.adaptor.cache.directory / "proofs",
                self._context,
                lambda: f"{made_of(design)} {made_of(backend)}",
                lambda: is_edited(design) or is_edited(backend),
            )
        return self._proofs[family.design]

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
        if reason := why_not(self.registry, family, problem):
            raise XpuConfigError(f"family {family.name!r}, problem {problem.key}: {reason}")
        return problem

    def bucketed(self, family: Family, problem: Problem) -> Problem | None:
        """Return the problem whose answer serves a problem; see `xpu.buckets.family_bucket`."""
        policies, registry = self.settings.buckets, self.registry
        return family_bucket(family, problem, policies, lambda it: why_not(registry, family, it))

    def rule_out(self, family: Family, problem: Problem) -> Mapping[str, Verdict]:
        """Return every member's verdict by what is known without compiling."""
        shapes = self.filter_for(family, problem)
        return {
            member.name: self._consider(shapes, family, member, None)
            for member in family.for_dialect(self.dialect)
        }

    def eligible(self, family: Family, problem: Problem) -> tuple[str, ...]:
        """Name the members that may be had and are not ruled out uncompiled, in declared order."""
        verdicts, lacks = self.rule_out(family, problem), self.adaptor.lacks
        return tuple(
            member.name
            for member in family.for_dialect(self.dialect)
            if verdicts[member.name].is_survivor and not lacks(family, member)
        )

    def assemble(
        self, family: Family, problem: Problem, build: Collection[str] | None = None
    ) -> Assembled:
        """Build the named members (None: all that may be) and consider the whole family.

        A member that is not built is considered by what is known without its code.
        """
        eligible = self.eligible(family, problem)
        if build is None:
            wanted = family.within_cap(eligible, self.dialect)
        else:
            wanted = tuple(name for name in eligible if name in build)
        results = self.adaptor.build(family, _named(family, wanted), self.adaptor.native_target())
        capped = eligible if build is None else ()
        return self._considered(family, problem, results, capped)

    def recalled(self, family: Family, problem: Problem) -> Assembled | None:
        """Consider a family as it was built before; None where a member was never compiled."""
        eligible = self.eligible(family, problem)
        found = self.adaptor.recall(
            family,
            _named(family, family.within_cap(eligible, self.dialect)),
            self.adaptor.native_target(),
        )
        results = {name: result for name, result in found.items() if result is not None}
        if len(results) < len(found):
            return None
        return self._considered(family, problem, results, eligible)

    def _considered(
        self,
        family: Family,
        problem: Problem,
        results: Mapping[str, Built | Called | XpuBuildError],
        capped: Collection[str],
    ) -> Assembled:
        shapes = self.filter_for(family, problem)
        built: dict[str, Built | Called] = {}
        for member in family.for_dialect(self.dialect):
            result = results.get(member.name)
            aside = self._aside(family, member, problem, result, capped=member.name in capped)
            if aside is not None:
                shapes.set_aside(aside)
                continue
            known = None if isinstance(result, XpuBuildError) else result
            if known is not None:
                built[member.name] = known
            self._consider(shapes, family, member, known)
        design = self.registry.design_of(family)
        records = {verdict.candidate.name: verdict.records for verdict in shapes.verdicts}
        arms = {
            member.name: self._arm(family, member, problem, built[member.name], records)
            for member in family.members
            if member.name in built
        }
        proofs = self.proofs(family)
        has_lapsed = any(proofs.is_lapsed(one.code_hash) for one in built.values())
        return Assembled(family, design, problem, shapes, built, arms, has_lapsed)

    def _arm(
        self,
        family: Family,
        member: Member,
        problem: Problem,
        built: Built | Called,
        records: Mapping[str, Mapping[str, Figure]],
    ) -> Arm:
        parameters = {**member.parameters, **told_to_launch(records.get(member.name, {}))}
        return arm_of(self.registry, family, self.dialect, parameters, problem, built)

    def _aside(
        self,
        family: Family,
        member: Member,
        problem: Problem,
        result: Built | Called | XpuBuildError | None,
        *,
        capped: bool,
    ) -> MemberResult | None:
        """Say why a member does not reach the rules; None when it does."""
        if isinstance(result, XpuBuildError):
            return MemberResult(member.name, status="failed", note=str(result))
        if result is None:
            if why := self.adaptor.lacks(family, member):
                return MemberResult(member.name, status="capped", note=why)
            return MemberResult(member.name, status="capped") if capped else None
        if why := oversized(self.registry, family, member, self.dialect, problem, result):
            return MemberResult(member.name, status="failed", note=why)
        if isinstance(result, Called) and result.library is None:
            return MemberResult(member.name, status="failed", note=result.missing)
        proof = self.proofs(family).find(result.code_hash)
        if proof is None or proof.status == "well":
            return None
        again = f"; mend it, or delete {proof.path}, to try it again" if proof.path else ""
        return MemberResult(
            member.name,
            status=proof.status,
            note=f"{proof.note}{again}",
            code_hash=result.code_hash,
        )

    def filter_for(self, family: Family, problem: Problem) -> ShapeFilter:
        """Return a filter of the device for a family's problem, which has considered nothing."""
        return ShapeFilter(
            family.name,
            self.facts,
            problem,
            rules=self.settings.rules,
            default=family.default_for(self.dialect),
        )

    def _consider(
        self,
        shapes: ShapeFilter,
        family: Family,
        member: Member,
        built: Built | Called | None,
    ) -> Verdict:
        return considered(self.registry, shapes, family, member, self.dialect, built)


def arm_of(
    registry: Registry,
    family: Family,
    dialect: str,
    parameters: Mapping[str, int],
    problem: Problem,
    built: Built | Called,
) -> Arm:
    """Return a member's code and how it is launched; `parameters` may hold what rules recorded.

    Raises
    ------
    XpuLaunchException
        What was recorded makes the block larger than the code was compiled for.
    """
    design = registry.design_of(family)
    launch = registry.launch_for(family, dialect, parameters, problem)
    if isinstance(built, Built) and (why := built.refuses(launch)):
        raise XpuLaunchException(why)
    names = [argument.name for argument in design.arguments]
    staged = before_launches(registry, family, dialect, parameters, problem)
    return Arm(
        built.code,
        built.entry,
        built.code_hash,
        launch,
        tuple(problem.sizes[name] for name in design.problem),
        tuple(
            Staging(
                code.code,
                code.entry,
                before.launch,
                before.preparation.sizes(before.raw_shape, family.constants),
                names.index(before.preparation.argument),
                before.preparation.prepared_bytes(before.raw_shape, family.constants),
            )
            for before, code in zip(staged, built.staging, strict=True)
        ),
    )


def _named(family: Family, names: Collection[str]) -> list[Member]:
    return [member for member in family.members if member.name in names]
