"""What `xpu build` does: families built for targets, one after another, each reported.

It needs no device. A facts file stands for one: members that it rules out uncompiled are not
built, and the cap counts the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from xpu.adaptor import BatchAdaptor, BuildCache, Built, Called
from xpu.adaptor.batch import Recipes
from xpu.adaptor.gates import Named, Subject, findings
from xpu.building.considering import considered
from xpu.building.family_build import FamilyBuild
from xpu.building.targets import Target
from xpu.bundle import BundleWriter
from xpu.errors import XpuBuildError, XpuConfigError, XpuPluginError
from xpu.filter import ShapeFilter
from xpu.model import Declarations, DeviceFacts, Family, Member, Problem, Verdict
from xpu.registry import Registry, bare, speaks, why_not
from xpu.settings import Settings, written

_SMALLEST: Final = tuple(1 << power for power in range(17))
"""Sizes that are tried for a problem that a design takes: what the smallest of them rules out
every problem does, for needs grow with sizes."""


def chosen_families(settings: Settings, names: Sequence[str]) -> list[Family]:
    """Return families by name, or all; with those of routes the families of their routes.

    Raises
    ------
    XpuConfigError
        There is no family of a name, or it is dormant.
    """
    named = [settings.family(name) for name in names] or list(settings.families.values())
    found: dict[str, Family] = {}
    for family in named:
        found |= {it.name: it for it in (family, *(route.family for route in family.routes))}
    return list(found.values())


def check_dialects(
    registry: Registry, settings: Settings, names: Sequence[str], targets: Iterable[Target]
) -> None:
    """Refuse a target that a family which is named has nothing for, or that none has anything for.

    Raises
    ------
    XpuConfigError
        There is such a family or target; the message says which dialects would do.
    """
    families = [settings.family(name) for name in names] or list(settings.families.values())
    for target in targets:
        dialect = target.backend.dialect
        silent = [each for each in families if not speaks(registry, each, dialect)]
        if not silent or (not names and len(silent) < len(families)):
            continue
        what = f"family {silent[0].name!r} has" if names else "the families have"
        wanted = silent[:1] if names else families
        others = [
            one
            for one in sorted(registry.dialects)
            if any(speaks(registry, each, one) for each in wanted)
        ]
        serving = [each.name for each in registry.backends.values() if each.dialect in others]
        raise XpuConfigError(
            f"{what} no members for target {target.name} of backend {target.backend.name!r}, whose "
            f"dialect is {dialect!r}; allowed: targets of dialect {', '.join(others) or 'none'}, "
            f"of these backends: {', '.join(serving) or 'none that is installed'}"
        )


class Building:
    """Builds families for targets.

    Parameters
    ----------
    facts
        The device to build for, as far as its rules go; None: nothing is ruled out.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        cache: BuildCache,
        facts: DeviceFacts | None = None,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._cache = cache
        self._facts = facts
        # By family: whatever is declared of it speaks of them for each target.
        self._members: dict[str, Collection[Member]] = {}

    def steps(
        self, families: Iterable[Family], targets: Iterable[Target]
    ) -> list[tuple[Target, Family]]:
        """Return what there is to build: of each target the families that its dialect has."""
        with_code = [family for family in families if not family.routes]
        return [
            (target, family)
            for target in targets
            for family in with_code
            if speaks(self._registry, family, target.backend.dialect)
        ]

    def run(self, steps: Iterable[tuple[Target, Family]]) -> Iterator[FamilyBuild]:
        """Build step by step; a member that fails is a value in its result.

        So is each member of a family whose plugin is at fault.

        Raises
        ------
        XpuConfigError
            Nothing compiles for a target, which its compiler does not know.
        """
        adaptors: dict[str, BatchAdaptor] = {}
        recipes = Recipes()
        try:
            for target, family in steps:
                name = target.backend.name
                if name not in adaptors:
                    adaptors[name] = BatchAdaptor(
                        target.backend, self._registry, self._cache, recipes
                    )
                try:
                    build = self._family(adaptors[name], family, target)
                except XpuPluginError as fault:  # the other families are built all the same
                    build = self._faulty(adaptors[name], family, target, fault)
                _check_target(build)
                yield build
        finally:
            self._cache.save_index()

    def _family(self, adaptor: BatchAdaptor, family: Family, target: Target) -> FamilyBuild:
        dialect = adaptor.backend.dialect
        members = family.for_dialect(dialect)
        pruned = self._ruled_out(family, dialect)
        names = {verdict.candidate.name for verdict in pruned}
        passing = [member.name for member in members if member.name not in names]
        kept = family.within_cap(passing, dialect)
        wanted = [member for member in members if member.name in kept]
        results = adaptor.build(family, wanted, target.name)
        preparation: Built | XpuBuildError | None
        try:
            preparation = adaptor.preparation(family, target.name)
        except XpuBuildError as failed:
            preparation = failed
        built = FamilyBuild(
            family,
            target,
            results,
            pruned,
            tuple(name for name in passing if name not in kept),
            preparation,
            tuple(_sources(adaptor, family, target.name, wanted, results, preparation)),
        )
        return self._judged(built, adaptor.identity, is_whole=len(wanted) == len(members))

    def _faulty(
        self, adaptor: BatchAdaptor, family: Family, target: Target, fault: XpuPluginError
    ) -> FamilyBuild:
        """Return what becomes of a family whose plugin is at fault: each member fails by it."""
        members = family.for_dialect(target.backend.dialect)
        failed = FamilyBuild(family, target, {it.name: XpuBuildError(str(fault)) for it in members})
        return self._judged(failed, adaptor.identity, is_whole=True)

    def _judged(self, build: FamilyBuild, compiler: str, *, is_whole: bool) -> FamilyBuild:
        """Return a build with what the gates find; `is_whole` where no member was left out."""
        family, target = build.family, build.target
        declared = family.declared.over(bare(self._registry.design(family.design)).declared)
        subject = Subject(
            family.name,
            target.backend.name,
            target.name,
            compiler,
            declared,
            build.members,
            build.preparation,
            is_whole=is_whole,
            named=self._named(family, declared, target),
        )
        return attrs.evolve(build, findings=findings(subject))

    def _named(self, family: Family, declared: Declarations, target: Target) -> Named:
        """Return what declarations of a family may name where a target is built."""
        own = (it for it in declared.unlowered if it.backend == target.backend.name)
        targets = {name for each in own for name in each.targets}
        return Named(
            tuple(self._registry.backends),
            target.backend.dialect,
            self._members_of_design(family),
            {name for name in targets if attrs.evolve(target, name=name).is_unknown},
        )

    def _members_of_design(self, family: Family) -> Collection[Member]:
        if family.name not in self._members:
            same = (it for it in self._settings.families.values() if it.design == family.design)
            self._members[family.name] = {each for it in (*same, family) for each in it.members}
        return self._members[family.name]

    def _ruled_out(self, family: Family, dialect: str) -> tuple[Verdict, ...]:
        """Return what the facts rule out, launched on a problem as small as the design takes."""
        if self._facts is None:
            return ()
        problem = self._smallest(family)
        shapes = ShapeFilter(
            family.name, self._facts, problem or Problem(), rules=self._settings.rules
        )
        launched = None if problem is None else dialect
        for member in family.for_dialect(dialect):
            considered(self._registry, shapes, family, member, launched)
        return tuple(shapes.pruned)

    def _smallest(self, family: Family) -> Problem | None:
        for size in _SMALLEST:
            problem = Problem(**dict.fromkeys(family.problem, size))
            if not why_not(self._registry, family, problem):
                return problem
        return None


def _check_target(build: FamilyBuild) -> None:
    """Refuse a target that its compiler does not know, once and not kernel by kernel."""
    target = build.target
    made = [each for each in build.members.values() if not isinstance(each, Called)]
    failed = [each for each in made if isinstance(each, XpuBuildError)]
    if failed and len(failed) == len(made) and target.is_unknown:
        raise XpuConfigError(
            f"--target {target.name}: the compiler of backend {target.backend.name!r} makes no "
            f"code for it: {failed[0]}"
        )


def _sources(
    adaptor: BatchAdaptor,
    family: Family,
    target: str,
    members: Sequence[Member],
    results: Mapping[str, Built | Called | XpuBuildError],
    preparation: Built | XpuBuildError | None,
) -> Iterator[tuple[str, Built]]:
    """Yield each kernel of a family with the key of what it was built from."""
    for name, recipe in adaptor.recipes(family, members, target).items():
        result = results[name]
        if not isinstance(result, XpuBuildError) and not isinstance(recipe, XpuBuildError):
            made = [result] if isinstance(result, Built) else []
            for unit, built in zip(recipe.units, [*made, *result.staging], strict=True):
                yield adaptor.source_key(unit), built
    preparing = adaptor.preparation_unit(family, target)
    if preparing is not None and isinstance(preparation, Built):
        yield adaptor.source_key(preparing), preparation


def write_bundle(
    writer: BundleWriter,
    builds: Sequence[FamilyBuild],
    settings: Settings,
    chosen: Iterable[Family],
) -> None:
    """Write what was built, all of it well, as a bundle.

    It has the configuration of the families that were built, and of those of routes among the
    chosen ones, with their routes: one may have nothing for any target.

    Raises
    ------
    XpuBuildError
        What a backend loads beside kernels does not compile.
    XpuError
        The directory cannot be written.
    """
    names = {build.family.name for build in builds}
    names |= {
        family.name
        for family in settings.families.values()
        if family.routes and all(route.family.name in names for route in family.routes)
    }
    for family in chosen:
        if family.routes:
            names |= {family.name, *(route.family.name for route in family.routes)}
    writer.add_config(written(settings, names))
    by_target: dict[Target, list[FamilyBuild]] = {}
    for build in builds:
        by_target.setdefault(build.target, []).append(build)
    for target, own in by_target.items():
        writer.add_target(
            target.carried,
            [pair for build in own for pair in build.sources],
            [it for build in own for it in build.members.values() if isinstance(it, Called)],
            target.compiler.runtime(target.name),
        )
    writer.finish()
