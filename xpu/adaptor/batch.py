"""The compile step for families and targets by the hundred, of which most is built already.

What members are made of depends on a target's waves alone, so it is made once for all targets; and
since nothing is loaded here, manifests are looked up without reading code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xpu.adaptor.adaptor import Adaptor
from xpu.adaptor.cache import BuildCache
from xpu.adaptor.recipe import Recipe
from xpu.adaptor.units import built_key, source_key
from xpu.errors import XpuBuildError
from xpu.model import Family, Manifest, Member
from xpu.registry import Registry
from xpu.spec import Backend, KernelUnit


class BatchAdaptor(Adaptor):
    """Builds as an `Adaptor` does, and keeps what does not change within a batch."""

    def __init__(self, backend: Backend, registry: Registry, cache: BuildCache) -> None:
        super().__init__(backend, registry, cache)
        self._recipes: dict[tuple[str, str, int | None], Recipe | XpuBuildError] = {}
        self._preparations: dict[tuple[str, int | None], KernelUnit | None] = {}
        # By the number of a unit, which the unit beside it keeps from becoming another's.
        self._sources: dict[int, tuple[KernelUnit, str]] = {}
        self._made_by: dict[str, tuple[str, str]] = {}
        self._widths: dict[str, int | None] = {}

    def recipes(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Recipe | XpuBuildError]:
        """Return what members are made of, made once for all targets of one wave width."""
        width = self._width(target)
        keys = {member.name: (family.name, member.name, width) for member in members}
        missing = [member for member in members if keys[member.name] not in self._recipes]
        if missing:
            made = super().recipes(family, missing, target)
            self._recipes |= {keys[name]: recipe for name, recipe in made.items()}
        return {name: self._recipes[key] for name, key in keys.items()}

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
        if target not in self._made_by:
            self._made_by[target] = (self.compiler.identity, self.compiler.fingerprint(target))
        return built_key(self.source_key(unit), *self._made_by[target], target)

    def find(self, key: str) -> tuple[Manifest, Path] | None:
        """Return what is kept under a key, whole when it was last read."""
        return self.cache.known(key)

    def _width(self, target: str) -> int | None:
        if target not in self._widths:
            self._widths[target] = self.backend.wave_width(target)
        return self._widths[target]
