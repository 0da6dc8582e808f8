"""Targets by their names: each belongs to the backend whose compiler knows it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from xpu.building.startup import pick_backend
from xpu.bundle import Carried
from xpu.errors import XpuConfigError, XpuError
from xpu.model.names import probably
from xpu.registry import Registry, bare
from xpu.spec import Backend, Compiler


@attrs.frozen(eq=False)
class Target:
    """A target of a backend's compiler; `name` is what it is called there."""

    name: str
    backend: Backend
    compiler: Compiler

    @property
    def is_unknown(self) -> bool:
        """Whether its compiler says that it makes no code for it.

        One that knows this machine's target alone says nothing of others.
        """
        says = type(bare(self.compiler)).knows is not Compiler.knows
        return says and not self.compiler.knows(self.name)

    @property
    def carried(self) -> Carried:
        """What a bundle says of it, with nothing in it."""
        return Carried(
            backend=self.backend.name,
            dialect=self.backend.dialect,
            target=self.name,
            carried=self.compiler.carried_target(self.name),
            compiler=self.compiler.identity,
            kernels=(),
            routines={},
            runtime={},
        )


def targets_of(registry: Registry, names: Sequence[str], backend: str | None) -> list[Target]:
    """Return targets by their names, each with the backend whose compiler knows it.

    A backend's name stands for the target of this machine's device. With no names it is that
    of `backend`, or of the first backend that is available.

    Raises
    ------
    XpuConfigError
        A name is empty. No compiler that is here knows a name; the message says what each is,
        or why not. Or it is the name of another backend than `backend`.
    XpuBuildError
        A backend that is named has no compiler, or knows no device.
    XpuLaunchException
        No name is given, and no backend is available.
    """
    if not names:
        one = pick_backend(registry, None) if backend is None else registry.backend(backend)
        return [_native(one)]
    if not all(names):
        raise XpuConfigError(
            "--target is empty; name what a backend compiles for, or a backend, for this machine's "
            f"device: {', '.join(registry.backends)}"
        )
    if backend is not None:
        one = registry.backend(backend)
        found = [_native(one) if name == backend else _named(registry, one, name) for name in names]
    else:
        found = [_found(registry, name) for name in names]
    return list({(it.backend.name, it.name): it for it in found}.values())


def _native(backend: Backend) -> Target:
    compiler = backend.compiler()
    return Target(compiler.native_target(), backend, compiler)


def _named(registry: Registry, backend: Backend, name: str) -> Target:
    if name in registry.backends:
        raise XpuConfigError(
            f"--target {name} is this machine's device of backend {name!r}, and --backend says "
            f"{backend.name!r}; leave --backend out, or name a target of {backend.name}"
        )
    # Whether its compiler knows it is asked when nothing compiles: that may start a program.
    return Target(name, backend, backend.compiler())


def _found(registry: Registry, name: str) -> Target:
    if name in registry.backends:
        return _native(registry.backend(name))
    known = [*registry.backends]
    missing = []
    for backend in map(registry.backend, registry.backends):
        try:
            compiler = backend.compiler()
        except XpuError as why:
            missing.append(f"{backend.name} has no compiler here: {why}")
            continue
        if compiler.knows(name):
            return Target(name, backend, compiler)
        known += compiler.targets()
    told = "; ".join([", ".join(registry.backends), *missing])
    raise XpuConfigError(
        f"--target {name}: no compiler knows it; {probably(name, known)}allowed: what a backend "
        f"compiles for, or the name of a backend, which stands for this machine's device: {told}"
    )
