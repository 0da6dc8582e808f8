"""Build members of a family for one target, each from the cache where it is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from xpu.adaptor.built import Built, Called
from xpu.adaptor.cache import BuildCache
from xpu.adaptor.deadline import compile_deadline_s
from xpu.adaptor.launch_sites import FoundSites
from xpu.adaptor.recipe import Recipe, explained, joined, units_of
from xpu.adaptor.tier_report import TierReport
from xpu.adaptor.units import (
    kernel_name,
    member_unit,
    preparation_unit,
    staging_unit,
    unit_key,
)
from xpu.errors import XpuBuildError
from xpu.model import Family, Manifest, Member
from xpu.registry import Registry, staging_of
from xpu.spec import Backend, CompiledCode, Compiler, Design, KernelSource, KernelUnit


class Adaptor:
    """The compile step of one backend; `deadline_s` as of `compile_deadline_s` when None.

    Where units come from is for a subclass to say: `made`, `recalled` and `lacks`.
    `xpu.bundle` has one that takes them from a bundle.

    Attributes
    ----------
    runtime
        Files that the backend is given in the place of a compiler; None: it has one.
    found_sites
        Launches that were found in host code; None: it is read anew for each member.
    """

    runtime: Mapping[str, Path] | None = None
    found_sites: FoundSites | None = None

    def __init__(
        self,
        backend: Backend,
        registry: Registry,
        cache: BuildCache,
        *,
        deadline_s: float | None = None,
    ) -> None:
        self.backend = backend
        self.cache = cache
        self._registry = registry
        self._deadline_s = compile_deadline_s() if deadline_s is None else deadline_s
        self._compiler: Compiler | None = None
        # A compiler that fails, or hangs to its deadline, would do so for every problem.
        self._failed: dict[str, XpuBuildError] = {}
        self._tiers = TierReport()

    @property
    def compiler(self) -> Compiler:
        """The backend's compiler half, asked for once."""
        if self._compiler is None:
            self._compiler = self.backend.compiler()
        return self._compiler

    @property
    def identity(self) -> str:
        """Name and version of the compiler that what it gives was made with."""
        return self.compiler.identity

    def native_target(self) -> str:
        """Name the target of this machine's device."""
        return self.compiler.native_target()

    def lacks(self, family: Family, member: Member) -> str:
        """Return why a member cannot be had here at all; the empty text when it may be."""
        return ""

    def build(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Built | Called | XpuBuildError]:
        """Build members by name; one that fails is an error in its place."""
        recipes = self.recipes(family, members, target)
        units = units_of(recipes)
        results = dict(zip(map(id, units), self.made(units, target), strict=True))
        self._tiers.say(results.values())
        made = self._together(family, members, recipes, results)
        return {name: result for name, result in made.items() if result is not None}

    def recall(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Built | Called | XpuBuildError | None]:
        """Return what is built already; None for a member that would have to be compiled.

        A member that failed to compile when that was last tried is its error.
        """
        recipes = self.recipes(family, members, target)
        units = units_of(recipes)
        results = {id(unit): self.recalled(unit, target) for unit in units}
        return self._together(family, members, recipes, results)

    def recipes(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Recipe | XpuBuildError]:
        """Return what members are made of, by name.

        One that its declarations refuse is an error in its place.

        Raises
        ------
        XpuBuildError
            The family's design has no source in the backend's dialect.
        """
        design = self._design(family)
        source = self._source(design)
        recipes: dict[str, Recipe | XpuBuildError] = {}
        for member in members:
            try:
                recipes[member.name] = self._recipe(family, design, member, source, target)
            except XpuBuildError as refused:
                recipes[member.name] = refused
        return recipes

    def _design(self, family: Family) -> Design:
        """Return a family's design, as its constants make it."""
        return self._registry.design_of(family)

    def _recipe(
        self, family: Family, design: Design, member: Member, source: KernelSource, target: str
    ) -> Recipe:
        dialect, width = self.backend.dialect, self.backend.wave_width(target)
        before = staging_of(design, dialect, member.parameters)
        found = self.found_sites
        staging = [staging_unit(family, member, each, dialect, width, found) for each in before]
        if source.routine:
            return Recipe(None, self._called(family, member, source.routine), tuple(staging))
        own = member_unit(family, design, source, member, width, found)
        return Recipe(own, None, tuple(staging))

    def _called(self, family: Family, member: Member, routine: str) -> Called:
        library, missing = self._library(routine)
        return Called(kernel_name(family, member), routine, library, missing)

    def _library(self, routine: str) -> tuple[str | None, str]:
        """Return name and version of the library that has a routine; else None, and why."""
        try:
            return self.backend.library(routine), ""
        except XpuBuildError as missing:
            return None, str(missing)

    def _together(
        self,
        family: Family,
        members: Sequence[Member],
        recipes: Mapping[str, Recipe | XpuBuildError],
        results: Mapping[int, Built | XpuBuildError | None],
    ) -> dict[str, Built | Called | XpuBuildError | None]:
        """Put members together from what became of their units."""
        design = self._design(family)
        made: dict[str, Built | Called | XpuBuildError | None] = {}
        for member in members:
            recipe = recipes[member.name]
            if isinstance(recipe, XpuBuildError):
                made[member.name] = recipe
                continue
            own: Built | Called | XpuBuildError | None = recipe.called
            if recipe.own is not None:
                own = explained(results[id(recipe.own)], family, design, member)
            made[member.name] = joined(own, [results[id(unit)] for unit in recipe.staging])
        return made

    def recalled(self, unit: KernelUnit, target: str) -> Built | XpuBuildError | None:
        """Return what a unit was built to; None when it would have to be compiled."""
        key = self.key(unit, target)
        known = self._known(key, unit)
        if known is None and (why := self.cache.failure(key)) is not None:
            return XpuBuildError(why)
        return known

    def preparation(self, family: Family, target: str) -> Built | None:
        """Build a family's weight preparation; None when its dialect has none.

        Raises
        ------
        XpuBuildError
            It does not compile; nothing of the family can be served then.
        """
        unit = self.preparation_unit(family, target)
        if unit is None:
            return None
        [built] = self.made([unit], target)
        if isinstance(built, XpuBuildError):
            raise built
        return built

    def preparation_unit(self, family: Family, target: str) -> KernelUnit | None:
        """Return what a family's weight preparation is made of; None when it has none."""
        source = self._registry.preparation_for(family.design, self.backend.dialect)
        if source is None:
            return None
        preparation = self._design(family).preparation
        width = self.backend.wave_width(target)
        return preparation_unit(family, source, preparation, width, self.found_sites)

    def _source(self, design: Design) -> KernelSource:
        source = self._registry.source_for(design.name, self.backend.dialect)
        if source is None:
            raise XpuBuildError(
                f"design {design.name!r} has no source in dialect {self.backend.dialect!r}, which "
                f"backend {self.backend.name!r} takes; it has: {', '.join(design.dialects())}"
            )
        return source

    def key(self, unit: KernelUnit, target: str) -> str:
        """Return the key under which what a unit is built to is kept."""
        return unit_key(unit, self.compiler, target)

    def find(self, key: str) -> tuple[Manifest, Path] | None:
        """Return what is kept under a key, whole; None when there is nothing."""
        return self.cache.find(key)

    def _known(self, key: str, unit: KernelUnit) -> Built | XpuBuildError | None:
        if key in self._failed:
            return self._failed[key]
        found = self.find(key)
        return None if found is None else _built(found, unit, was_cached=True)

    def made(self, units: Sequence[KernelUnit], target: str) -> list[Built | XpuBuildError]:
        """Build units; one that fails is an error in its place."""
        keys = [self.key(unit, target) for unit in units]
        # What several members share is looked up, and compiled, once.
        wanted: dict[str, KernelUnit] = {}
        for key, unit in zip(keys, units, strict=True):
            wanted.setdefault(key, unit)
        results = {key: self._known(key, unit) for key, unit in wanted.items()}
        missing = [key for key, result in results.items() if result is None]
        if missing:
            compiled = self.compiler.compile(
                [wanted[key] for key in missing], target, deadline_s=self._deadline_s
            )
            for key, code in zip(missing, compiled, strict=True):
                if isinstance(code, XpuBuildError):
                    results[key] = self._failed[key] = code
                    self.cache.keep_failure(key, str(code))
                else:
                    results[key] = self._keep(key, wanted[key], code, target)
        return [
            result if isinstance(result, XpuBuildError) else _under_its_name(result, unit)
            for key, unit in zip(keys, units, strict=True)
            if (result := results[key]) is not None
        ]

    def _keep(self, key: str, unit: KernelUnit, code: CompiledCode, target: str) -> Built:
        manifest = Manifest(
            kernel=unit.kernel,
            target=target,
            code_hash=hashlib.sha256(code.code).hexdigest(),
            compiler=self.compiler.identity,
            entry=unit.entry,
            footprint=attrs.evolve(code.facts, code_hash=None),
            buffers=code.buffers,
            operations=code.operations,
            max_threads=unit.max_threads,
            launch_sites=unit.launch_sites,
        )
        return _built(
            self.cache.keep(key, code.code, manifest, code.listing), unit, was_cached=False
        )


def _built(kept: tuple[Manifest, Path], unit: KernelUnit, *, was_cached: bool) -> Built:
    return _under_its_name(Built(*kept, was_cached), unit)


def _under_its_name(built: Built, unit: KernelUnit) -> Built:
    # The name is not in the key: whoever shares code shares its build, under the name of the
    # one that came first. So do those who launch it from elsewhere.
    own, kept = (unit.kernel, unit.entry, unit.launch_sites), built.manifest
    if own == (kept.kernel, kept.entry, kept.launch_sites):
        return built
    manifest = attrs.evolve(
        kept, kernel=unit.kernel, entry=unit.entry, launch_sites=unit.launch_sites
    )
    return attrs.evolve(built, manifest=manifest)
