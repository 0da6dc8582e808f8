"""Build members of a family for one target, each from the cache where it is there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs

from xpu.adaptor.cache import BuildCache
from xpu.adaptor.units import macros, member_unit, preparation_unit, staging_unit, unit_key
from xpu.errors import XpuBuildError
from xpu.model import Family, KernelFacts, Manifest, Member
from xpu.registry import Registry
from xpu.spec import Backend, CompiledCode, Compiler, Design, KernelSource, KernelUnit

R = TypeVar("R")

COMPILE_DEADLINE_S: Final = 60.0
"""Seconds that one unit may take to compile. Source: the slowest shipped unit takes 3 s on
two shared cores; twenty times that is a compiler that hangs."""


@attrs.frozen
class Built:
    """One kernel's code object, on disk, with its manifest.

    `staging` is the kernel that runs before each of its launches, where there is one.
    """

    manifest: Manifest
    code: Path
    was_cached: bool
    staging: Built | None = None

    @property
    def code_hash(self) -> str:
        """Hash of all code that a launch of it runs."""
        own = self.manifest.code_hash
        if self.staging is None:
            return own
        return hashlib.sha256(f"{own} {self.staging.code_hash}".encode()).hexdigest()

    @property
    def facts(self) -> KernelFacts:
        """What the compiler made of it."""
        return attrs.evolve(self.manifest.footprint, code_hash=self.code_hash)


class Adaptor:
    """The compile step of one backend."""

    def __init__(
        self,
        backend: Backend,
        registry: Registry,
        cache: BuildCache,
        *,
        deadline_s: float = COMPILE_DEADLINE_S,
    ) -> None:
        self.backend = backend
        self.cache = cache
        self._registry = registry
        self._deadline_s = deadline_s
        self._compiler: Compiler | None = None
        # A compiler that fails, or hangs to its deadline, would do so for every problem.
        self._failed: dict[str, XpuBuildError] = {}

    @property
    def compiler(self) -> Compiler:
        """The backend's compiler half, asked for once."""
        if self._compiler is None:
            self._compiler = self.backend.compiler()
        return self._compiler

    def native_target(self) -> str:
        """Name the target of this machine's device."""
        return self.compiler.native_target()

    def build(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Built | XpuBuildError]:
        """Build members by name; one that fails is an error in its place."""
        design = self._registry.design(family.design)
        pairs = self._member_units(family, design, members)
        units = [unit for pair in pairs for unit in pair if unit is not None]
        results = dict(zip(map(id, units), self._units(units, target), strict=True))
        built: dict[str, Built | XpuBuildError] = {}
        for member, (unit, staging) in zip(members, pairs, strict=True):
            own = _explained(results[id(unit)], family, design, member)
            built[member.name] = own if staging is None else _joined(own, results[id(staging)])
        return built

    def recall(
        self, family: Family, members: Sequence[Member], target: str
    ) -> Mapping[str, Built | XpuBuildError | None]:
        """Return what is built already; None for a member that would have to be compiled.

        A member that failed to compile when that was last tried is its error.
        """
        found: dict[str, Built | XpuBuildError | None] = {}
        design = self._registry.design(family.design)
        pairs = self._member_units(family, design, members)
        for member, (unit, staging) in zip(members, pairs, strict=True):
            own = _explained(self._recalled(unit, target), family, design, member)
            before = None if staging is None else self._recalled(staging, target)
            if own is None or staging is None:
                found[member.name] = own
            else:
                found[member.name] = None if before is None else _joined(own, before)
        return found

    def _member_units(
        self, family: Family, design: Design, members: Sequence[Member]
    ) -> list[tuple[KernelUnit, KernelUnit | None]]:
        source, dialect = self._source(design), self.backend.dialect
        pairs: list[tuple[KernelUnit, KernelUnit | None]] = []
        for member in members:
            staging = self._registry.staging_for(design.name, dialect, member.parameters)
            own = member_unit(family, design, source, member)
            if staging is None:
                pairs.append((own, None))
            else:
                pairs.append((own, staging_unit(family, member, staging.source(dialect))))
        return pairs

    def _recalled(self, unit: KernelUnit, target: str) -> Built | XpuBuildError | None:
        key = unit_key(unit, self.compiler, target)
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
        source = self._registry.preparation_for(family.design, self.backend.dialect)
        if source is None:
            return None
        [built] = self._units([preparation_unit(family, source)], target)
        if isinstance(built, XpuBuildError):
            raise built
        return built

    def _source(self, design: Design) -> KernelSource:
        source = self._registry.source_for(design.name, self.backend.dialect)
        if source is None:
            raise XpuBuildError(
                f"design {design.name!r} has no source in dialect {self.backend.dialect!r}, which "
                f"backend {self.backend.name!r} takes; it has: {', '.join(design.dialects())}"
            )
        return source

    def _known(self, key: str, unit: KernelUnit) -> Built | XpuBuildError | None:
        if key in self._failed:
            return self._failed[key]
        found = self.cache.find(key)
        return None if found is None else _built(found, unit, was_cached=True)

    def _units(self, units: Sequence[KernelUnit], target: str) -> list[Built | XpuBuildError]:
        keys = [unit_key(unit, self.compiler, target) for unit in units]
        results = [self._known(key, unit) for key, unit in zip(keys, units, strict=True)]
        # What several members share is compiled once.
        missing = [
            index
            for index, result in enumerate(results)
            if result is None and keys.index(keys[index]) == index
        ]
        if missing:
            wanted = [units[index] for index in missing]
            compiled = self.compiler.compile(wanted, target, deadline_s=self._deadline_s)
            for index, code in zip(missing, compiled, strict=True):
                if isinstance(code, XpuBuildError):
                    results[index] = self._failed[keys[index]] = code
                    self.cache.keep_failure(keys[index], str(code))
                else:
                    results[index] = self._keep(keys[index], units[index], code, target)
        made = (results[keys.index(key)] for key in keys)
        return [result for result in made if result is not None]

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
        )
        return _built(self.cache.keep(key, code.code, manifest), unit, was_cached=False)


def _joined(own: Built | XpuBuildError, staging: Built | XpuBuildError) -> Built | XpuBuildError:
    """Return a member's code with what runs before it; the error of either, when there is one."""
    if isinstance(own, XpuBuildError):
        return own
    return staging if isinstance(staging, XpuBuildError) else attrs.evolve(own, staging=staging)


def _explained(result: R, family: Family, design: Design, member: Member) -> R | XpuBuildError:
    """Name the parameters that a failed member does not set and its source asks for."""
    if not isinstance(result, XpuBuildError):
        return result
    known = {*design.parameters, *(name for one in family.members for name in one.parameters)}
    words = set(re.findall(r"\w+", str(result)))
    asked = [
        f'"{name}"'
        for name in sorted(known - member.parameters.keys())
        if words & macros({name: 1}).keys()
    ]
    if not asked:
        return result
    return XpuBuildError(f"member {member.name} sets no {', '.join(asked)}: {result}")


def _built(kept: tuple[Manifest, Path], unit: KernelUnit, *, was_cached: bool) -> Built:
    # The name is not in the key: families that share code share its build, under the name
    # of the one that came first.
    manifest = attrs.evolve(kept[0], kernel=unit.kernel, entry=unit.entry)
    return Built(manifest, kept[1], was_cached)
