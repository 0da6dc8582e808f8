"""The compile step for families and targets by the hundred, of which most is built already.

What members are made of depends on a target's waves alone, so it is made once for all targets; and
since nothing is loaded here, manifests are looked up without reading code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from xpu.adaptor.adaptor import Adaptor
from xpu.adaptor.cache import BuildCache
from xpu.adaptor.launch_sites import FoundSites
from xpu.adaptor.recipe import Recipe
from xpu.adaptor.units import built_key, made_with, source_key
from xpu.errors import XpuBuildError
from xpu.model import Family, Manifest, Member
from xpu.registry import Registry
from xpu.spec import Backend, Design, KernelUnit


@attrs.frozen(eq=False)
class Recipes:
    """What a batch keeps for all of its backends.

    Attributes
    ----------
    made
        What members are made of, by dialect, family, member and wave width.
    found_sites
        Launches that were found: members of one source have them in common.
    """

    made: dict[tuple[str, str, str, int | None], Recipe | XpuBuildError] = attrs.field(factory=dict)
    found_sites: FoundSites = attrs.field(factory=dict)


class BatchAdaptor(Adaptor):
    """Builds as an `Adaptor` does, and keeps what does not change within a batch.

    `recipes` are those of the batch, which the backends of a dialect share.
    """

    def __init__(
        self,
        backend: Backend,
        registry: Registry,
        cache: BuildCache,
        recipes: Recipes | None = None,
    ) -> None:
        super().__init__(backend, registry, cache)
        shared = Recipes() if recipes is None else recipes
        self._recipes, self.found_sites = shared.made, shared.found_sites
        self._preparations: dict[tuple[str, int | None], KernelUnit | None] = {}
        # By the number of a unit, which the unit beside it keeps from becoming another's.
        self._sources: dict[int, tuple[KernelUnit, str]] = {}
        # Staging that members share has one source and many units.
        self._keys: dict[tuple[str, str], str] = {}
        self._found: dict[str, tuple[Manifest, Path]] = {}
        self._made_with: dict[str, tuple[str, ...]] = {}
        self._widths: dict[str, int | None] = {}
        self._designs: dict[str, Design] = {}
        # Looking for a library that is not here takes as long as building hundreds of members.
        self._libraries: dict[str, tuple[str | None, str]] = {}

    def recipes(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Recipe | XpuBuildError]:
        """Return what members are made of, made once for all targets of one wave width."""
        width, dialect = self._width(target), self.backend.dialect
        keys = {member.name: (dialect, family.name, member.name, width) for member in members}
        missing = [member for member in members if keys[member.name] not in self._recipes]
        if missing:
            made = super().recipes(family, missing, target)
            self._recipes |= {keys[name]: recipe for name, recipe in made.items()}
        return {
            member.name: self._own(family, member, self._recipes[keys[member.name]])
            for member in members
        }

    def _own(
        self, family: Family, member: Member, recipe: Recipe | XpuBuildError
    ) -> Recipe | XpuBuildError:
        """Return a recipe as this backend has it: a library is each backend's own."""
        if isinstance(recipe, XpuBuildError) or recipe.called is None:
            return recipe
        return attrs.evolve(recipe, called=self._called(family, member, recipe.called.entry))

    def preparation_unit(self, family: Family, target: str) -> KernelUnit | None:
        """Return what a weight preparation is made of, made once as `recipes` are."""
        key = (family.name, self._width(target))
        if key not in self._preparations:
            self._preparations[key] = super().preparation_unit(family, target)
        return self._preparations[key]

    def source_key(self, unit: KernelUnit) -> str:
        """Return the key of what a unit is compiled from; see `units.source_key`."""
        if id(unit) not in self._sources:
            self._sources[id(unit)] = (unit, source_key(unit))
        return self._sources[id(unit)][1]

    def key(self, unit: KernelUnit, target: str) -> str:
        """Return the key under which what a unit is built to is kept."""
        if target not in self._made_with:
            self._made_with[target] = made_with(self.compiler, target)
        source = self.source_key(unit)
        key = self._keys.get((source, target))
        if key is None:
            key = self._keys[source, target] = built_key(source, self._made_with[target])
        return key

    def find(self, key: str) -> tuple[Manifest, Path] | None:
        """Return what is kept under a key, whole when it was last read."""
        found = self._found.get(key)
        if found is None and (found := self.cache.known(key)) is not None:
            self._found[key] = found
        return found

    def _design(self, family: Family) -> Design:
        if family.name not in self._designs:
            self._designs[family.name] = super()._design(family)
        return self._designs[family.name]

    def _library(self, routine: str) -> tuple[str | None, str]:
        if routine not in self._libraries:
            self._libraries[routine] = super()._library(routine)
        return self._libraries[routine]

    def _width(self, target: str) -> int | None:
        if target not in self._widths:
            self._widths[target] = self.backend.wave_width(target)
        return self._widths[target]
