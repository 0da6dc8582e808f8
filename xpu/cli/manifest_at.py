"""Finds the manifest that a command line means: a file's, or that of a kernel by its name."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from xpu.errors import XpuBuildError, XpuConfigError, XpuError
from xpu.model import PREPARATION, Manifest, Problem, nearest

if TYPE_CHECKING:
    from xpu.adaptor import Built, Called
    from xpu.building import Target
    from xpu.model import Family, Member
    from xpu.registry import Registry
    from xpu.settings import Settings
    from xpu.spec import Backend

_USUAL_SIZE: Final = 4096
"""Each size of a problem for which a launch is asked, where nobody says another."""


@attrs.frozen
class Found:
    """A manifest with what stands around it.

    Attributes
    ----------
    where
        What was asked for.
    code, listing
        Files with the code object, and with the text that the compiler made it of.
    backend
        The one whose compiler made it, where that is known.
    parameters
        Of the member, and of its launch: ``threads``, ``dynamic_shared_bytes``.
    """

    where: str
    manifest: Manifest
    code: Path | None = None
    listing: Path | None = None
    backend: Backend | None = None
    parameters: dict[str, int] = attrs.field(factory=dict)

    @property
    def is_file(self) -> bool:
        """Whether a file was asked for, and no kernel."""
        return Path(self.where).is_file()

    def listed(self) -> str:
        """Return the compiler's text; the empty one where it was not kept.

        Raises
        ------
        XpuBuildError
            It is damaged.
        """
        if self.listing is None or not self.listing.is_file():
            return ""
        try:
            text = gzip.decompress(self.listing.read_bytes()).decode()
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as cause:
            raise self._damaged(str(cause)) from cause
        if not text:  # nobody keeps an empty one
            raise self._damaged("it is empty")
        return text

    def _damaged(self, why: str) -> XpuBuildError:
        return XpuBuildError(
            f"{self.where}: the compiler's text {self.listing} is damaged: {why}; remove it and "
            "the code object beside it, and name the kernel, so that it is built again"
        )


class Finder:
    """Finds manifests; plugins and configuration are loaded for the first that needs them.

    Parameters
    ----------
    backend, target
        For kernels that are named without a target; as in `xpu build` where they are None.
    sizes
        A problem's key, for launches that depend on it.
    """

    def __init__(self, backend: str | None, target: str | None, sizes: str | None) -> None:
        from xpu.registry import default_registry

        self._registry: Registry = default_registry()
        self._backend, self._target, self._sizes = backend, target, sizes
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The configuration."""
        from xpu.building import settings_for

        if self._settings is None:
            self._settings = settings_for(self._registry)
        return self._settings

    @property
    def further_facts(self) -> set[str]:
        """Names of the facts that backends declare beyond the usual ones."""
        backends = self._registry.backends.values()
        return {name for one in backends for name in one.further_facts}

    def find(self, text: str) -> Found:
        """Return the manifest of a file, or of a kernel, built where it is not yet.

        Parameters
        ----------
        text
            A path, or a kernel (``q4k_tile.t64x64``), with its target behind an ``@`` perhaps.

        Raises
        ------
        XpuConfigError
            There is neither such a file nor such a kernel.
        XpuBuildError
            The file is no manifest, or the kernel does not compile.
        """
        path = Path(text)
        if path.is_file():
            return self._of_file(text, path)
        if path.suffix == ".toml" or "/" in text:
            raise XpuConfigError(f"{text}: there is no such file")
        kernel, _, target = text.partition("@")
        return self._of_kernel(text, kernel, target or self._target)

    def _of_file(self, text: str, path: Path) -> Found:
        from xpu.adaptor import LISTING, manifest_from_toml

        try:
            manifest = manifest_from_toml(path.read_text("utf-8"), text)
        except UnicodeDecodeError as error:
            raise XpuBuildError(f"{text}: not a manifest: {error}") from error
        beside = [path.with_suffix(".code"), path.with_name("code")]
        # A bundle has its code objects by their hash.
        beside += [parent / "code" / manifest.code_hash for parent in path.absolute().parents[:3]]
        code = next((each for each in beside if each.is_file()), None)
        found = Found(text, manifest, code, path.with_name(LISTING))
        backend = self._whose(manifest.target)
        if backend is None:
            return found
        known = self._parameters(manifest.kernel, backend.dialect)
        return attrs.evolve(found, backend=backend, parameters=known)

    def _of_kernel(self, text: str, kernel: str, target: str | None) -> Found:
        from xpu.adaptor import LISTING, Adaptor, BuildCache
        from xpu.building import targets_of

        family, member = self._member(kernel)
        [wanted] = targets_of(self._registry, [target] if target else [], self._backend)
        self._check_dialect(kernel, family, member, wanted)
        adaptor = Adaptor(wanted.backend, self._registry, BuildCache())
        if member is None:
            made = adaptor.preparation(family, wanted.name)
            if made is None:
                why = f"{kernel}: the family prepares no weights for {wanted.backend.name}"
                raise XpuBuildError(why)
        else:
            made = _part(kernel, adaptor.build(family, [member], wanted.name)[member.name])
        known = self._parameters(kernel, wanted.backend.dialect)
        listing = made.code.with_name(LISTING)
        return Found(text, made.manifest, made.code, listing, wanted.backend, known)

    def _check_dialect(
        self, kernel: str, family: Family, member: Member | None, target: Target
    ) -> None:
        """Refuse a kernel that does not exist in a target's dialect."""
        from xpu.registry import speaks

        has = [
            dialect
            for dialect in sorted(self._registry.dialects)
            if speaks(self._registry, family, dialect) and (not member or member.speaks(dialect))
        ]
        if target.backend.dialect in has:
            return
        serving = [each.name for each in self._registry.backends.values() if each.dialect in has]
        raise XpuConfigError(
            f"{kernel}: it does not exist in dialect {target.backend.dialect!r}, which is that of "
            f"target {target.name} of backend {target.backend.name!r}; it has: "
            f"{', '.join(has) or 'none'}; name a target of {', '.join(serving) or 'no backend'} "
            f"with --target, or as {kernel}@TARGET"
        )

    def _member(self, kernel: str) -> tuple[Family, Member | None]:
        """Return family and member of a kernel; no member for what prepares weights."""
        name, _, rest = kernel.partition(".")
        family = self.settings.family(name)
        if family.routes:
            routes = ", ".join(route.family.name for route in family.routes)
            raise XpuConfigError(
                f"{kernel}: {name} is a family of routes and has no kernels of its own; name one "
                f"of these families: {routes}"
            )
        if rest == PREPARATION:
            return family, None
        own = rest.partition(".")[0]
        names = {member.name: member for member in family.members}
        if own not in names:
            prepares = self._registry.design(family.design).preparation is not None
            own_names = [*names, *([PREPARATION] if prepares else [])]
            kernels = [f"{name}.{each}" for each in own_names]
            raise XpuConfigError(f"no kernel is called {kernel!r}; {nearest(kernel, kernels)}")
        return family, names[own]

    def _parameters(self, kernel: str, dialect: str) -> dict[str, int]:
        """Return a member's parameters and launch; nothing for what is none of this configuration.

        What runs before a member, or prepares weights, has a launch that depends on the problem.
        """
        from xpu.orchestrator import launch_parameters

        name, _, own = kernel.partition(".")
        family = self.settings.families.get(name)
        member = (
            next((each for each in family.members if each.name == own), None) if family else None
        )
        if family is None or member is None or not member.speaks(dialect):
            return {}
        sizes = self._sizes or "x".join(str(_USUAL_SIZE) for _ in family.problem)
        problem = Problem.parse(family.problem, sizes)
        launch = self._registry.launch_for(family, dialect, member.parameters, problem)
        return {**launch_parameters(launch), **member.parameters}

    def _whose(self, target: str) -> Backend | None:
        """Return the backend that is named, else the one whose compiler knows a target."""
        if self._backend is not None:
            return self._registry.backend(self._backend)
        for backend in map(self._registry.backend, self._registry.backends):
            # A backend without its compiler knows no target: it is not the one that is meant.
            with contextlib.suppress(XpuError):
                if backend.compiler().knows(target):
                    return backend
        return None


def _part(kernel: str, result: Built | Called | XpuBuildError) -> Built:
    """Return what was built of a member under the name of a kernel: itself, or what runs before."""
    from xpu.adaptor import Built

    if isinstance(result, XpuBuildError):
        raise result
    parts = {each.kernel: each for each in (result, *result.staging)}
    if kernel not in parts:
        raise XpuConfigError(f"no kernel is called {kernel!r}; {nearest(kernel, parts)}")
    part = parts[kernel]
    if not isinstance(part, Built):
        raise XpuBuildError(f"{kernel}: it calls a routine of a library and has no code of its own")
    return part
