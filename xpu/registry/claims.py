"""What a plugin brings under a name, and who had the name first."""

from __future__ import annotations

from collections.abc import Iterator

from xpu.model import PluginRecord
from xpu.registry.contribution import Contribution


def claim(new: Contribution, claims: dict[tuple[str, object], Contribution]) -> PluginRecord:
    """Enter what a plugin brings among what is taken, and return its record.

    One that brings what is taken already contributes nothing.
    """
    own: dict[tuple[str, object], Contribution] = {}
    for wanted in claims_of(new):
        holder = claims.get(wanted) or own.get(wanted)
        if holder is not None:
            return new.found.record("conflict", *_conflict(wanted, holder, new))
        own[wanted] = new
    claims.update(own)
    return new.found.record("loaded")


def claims_of(given: Contribution) -> Iterator[tuple[str, object]]:
    """Name all that a plugin brings and nobody else may: kind and name."""
    yield "entry point", given.found.name
    for backend in given.backends:
        yield "backend", backend.name
    for design in given.designs:
        yield "design", design.name
        for dialect in design.dialects():
            yield "kernel source", (design.name, dialect)
    for probe in given.probes:
        yield "probe", probe.name
    for source in given.problem_sources:
        yield "problem source", source.name
    for added in given.kernel_sources:
        yield "kernel source", (added.design, added.dialect)


def _conflict(
    wanted: tuple[str, object], holder: Contribution, new: Contribution
) -> tuple[str, str]:
    kind, name = wanted
    if holder is new:
        return kind, f"it brings {kind} {name!r} twice, and contributes nothing"
    first = f"plugin {holder.found.name!r} of {holder.found.distribution}"
    second = f"plugin {new.found.name!r} of {new.found.distribution}"
    if kind == "entry point":
        mend = f"uninstall {holder.found.distribution} or {new.found.distribution}"
    else:
        mend = f"set XPU_PLUGINS=-{holder.found.name} or XPU_PLUGINS=-{new.found.name}"
    return kind, (
        f"{kind} {name!r} is brought by {first} and by {second}; the first serves, the second "
        f"contributes nothing; {mend}"
    )
