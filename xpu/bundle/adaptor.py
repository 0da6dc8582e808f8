"""The compile step without a compiler: members are found in a bundle, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from xpu.adaptor import Adaptor, BuildCache, Built
from xpu.adaptor.units import kernel_name, source_key
from xpu.bundle.bundle import Bundle
from xpu.bundle.contents import Carried, Kernel
from xpu.errors import XpuBuildError
from xpu.model import Family, Manifest, Member
from xpu.registry import Registry
from xpu.spec import Backend, KernelUnit


class BundleAdaptor(Adaptor):
    """Takes what a bundle holds for one target.

    A unit is looked up by what it would be compiled from: a member whose parameters are
    others than at the build, or whose plugin has another source now, is not served by code
    that its launch does not fit.

    Parameters
    ----------
    backend
        As `Backend.prebuilt` gave it.
    cache
        Where what trials prove is kept; nothing is built into it.

    Raises
    ------
    XpuBuildError
        A file of the target is missing or damaged.
    """

    def __init__(
        self,
        backend: Backend,
        registry: Registry,
        cache: BuildCache,
        bundle: Bundle,
        carried: Carried,
    ) -> None:
        super().__init__(backend, registry, cache)
        bundle.verify(sorted(carried.files))
        self.runtime = bundle.runtime(carried)
        self._bundle = bundle
        self._carried = carried
        self._by_source: Mapping[str, Kernel] = {it.source: it for it in carried.kernels}
        self._names = {it.kernel for it in carried.kernels} | {*carried.routines}
        self._manifests: dict[str, Manifest] = {}
        self._lacking: dict[tuple[str, str], tuple[Member, str]] = {}

    @property
    def identity(self) -> str:
        """Name and version of the compiler that made the bundle."""
        return self._carried.compiler

    def native_target(self) -> str:
        """Name the target that is taken from the bundle."""
        return self._carried.target

    def lacks(self, family: Family, member: Member) -> str:
        """Return why the bundle has no such member; the empty text when it has it."""
        known, why = self._lacking.get((family.name, member.name), (None, ""))
        if known is not member:
            why = self._why_not(family, member)
            self._lacking[family.name, member.name] = (member, why)
        return why

    def made(self, units: Sequence[KernelUnit], target: str) -> list[Built | XpuBuildError]:
        """Return units from the bundle; one that it does not hold is an error in its place.

        Raises
        ------
        XpuBuildError
            A file was damaged since the bundle was opened.
        """
        return [self._found(unit) or self._absent(unit) for unit in units]

    def recalled(self, unit: KernelUnit, target: str) -> Built | XpuBuildError | None:
        """Return a unit as `made` does, and raise as that does."""
        return self._found(unit) or self._absent(unit)

    def _why_not(self, family: Family, member: Member) -> str:
        name = kernel_name(family, member)
        [recipe] = self.recipes(family, [member], self.native_target()).values()
        if isinstance(recipe, XpuBuildError):
            return str(recipe)
        is_there = recipe.called is None or self._carried.routines.get(name) == recipe.called.entry
        if is_there and all(source_key(unit) in self._by_source for unit in recipe.units):
            return ""
        where = f"bundle {self._bundle.directory}"
        if name in self._names:
            return f"{where} has it made from another source or with other parameters"
        return f"not in {where}"

    def _found(self, unit: KernelUnit) -> Built | None:
        kernel = self._by_source.get(source_key(unit))
        if kernel is None:
            return None
        if kernel.manifest not in self._manifests:
            self._manifests[kernel.manifest] = self._bundle.manifest(kernel.manifest)
        self._bundle.verify([kernel.code])
        manifest = attrs.evolve(
            self._manifests[kernel.manifest],
            kernel=unit.kernel,
            entry=unit.entry,
            launch_sites=unit.launch_sites,
        )
        return Built(manifest, self._bundle.path(kernel.code), was_cached=True)

    def _absent(self, unit: KernelUnit) -> XpuBuildError:
        return XpuBuildError(
            f"{unit.kernel}: it is not in bundle {self._bundle.directory} for target "
            f"{self._carried.carried}, as it is configured and as its plugin has it here; "
            f"build it again: xpu build --target {self._carried.target} --out DIR"
        )
