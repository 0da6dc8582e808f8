"""Writes `kernels/`: what each compiler makes of every member, for every target, in tables.

    python docs/kernels_by_target.py [BACKEND …]

Builds come from the build cache where they are there. Without it all members for all targets take
half an hour of a core.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kernel_pages import INDEX, Line, page, table
from unseen_parts import problem_of

from xpu.adaptor import Adaptor, BuildCache, Built
from xpu.errors import XpuBuildError
from xpu.filter import ShapeFilter, occupancy
from xpu.model import DeviceFacts, Family, Member, Problem
from xpu.orchestrator import considered, launch_parameters, settings_for
from xpu.registry import Registry, default_registry
from xpu.settings import Settings

PAGES: Final = Path(__file__).with_name("kernels")
FACTS: Final = Path(__file__).parents[1] / "tests" / "vectors" / "devices.toml"
TARGETS: Final = {
    "cuda": ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120"),
    "hip": ("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201"),
    "cpu": ("sapphirerapids",),
}
PAIR: Final = ("rtx_4090", "radeon_8060s")
PAIR_FAMILIES: Final = ("q4k_tile", "q4k_matvec")
PAIR_PROBLEM: Final = {"m": 512, "n": 4096, "k": 4096}


def parts() -> Mapping[str, tuple[str, DeviceFacts]]:
    """Return name and facts of one part for each target that a part in the file has."""
    found: dict[str, tuple[str, DeviceFacts]] = {}
    for name, facts in tomllib.loads(FACTS.read_text("utf-8"))["devices"].items():
        known = DeviceFacts.from_mapping(facts, where=name)
        if known.architecture is not None:
            found.setdefault(known.architecture, (name, known))
    return found


def members_of(registry: Registry, family: Family, dialect: str) -> Sequence[Member]:
    """Return the members with code of their own in a dialect."""
    source = registry.source_for(family.design, dialect)
    if family.routes or source is None or source.routine is not None:
        return ()
    return family.for_dialect(dialect)


def lines(
    registry: Registry,
    settings: Settings,
    backend: str,
    targets: Iterable[str],
    families: Iterable[Family],
) -> Iterator[Line]:
    """Build members for targets and yield a line for each, by family and member."""
    one, known = registry.backend(backend), parts()
    adaptor = Adaptor(one, registry, BuildCache())
    for family in families:
        members = members_of(registry, family, one.dialect)
        if not members:
            continue
        built = {target: adaptor.build(family, members, target) for target in targets}
        problem = problem_of(family, settings)
        for member in members:
            launch = registry.launch_for(family, one.dialect, member.parameters, problem)
            taken = {**launch_parameters(launch), **member.parameters}
            for target, results in built.items():
                result = results[member.name]
                if not isinstance(result, Built):
                    yield Line(family.name, member.name, target, None, None, None, str(result))
                    continue
                _, facts = known.get(target, ("", None))
                manifest = result.manifest
                said = facts and occupancy(settings.rules, facts, manifest.footprint, taken)
                dynamic = taken.get("dynamic_shared_bytes")
                yield Line(family.name, member.name, target, manifest, dynamic, said)


def pair_section(registry: Registry, settings: Settings, family: Family) -> str:
    """Return what two parts of different makers serve of a family, with R3's figures."""
    tables = tomllib.loads(FACTS.read_text("utf-8"))["devices"]
    judged = [
        _judged(registry, settings, family, DeviceFacts.from_mapping(tables[name], where=name))
        for name in PAIR
    ]
    first, second = ([name for name, (is_kept, _) in one.items() if is_kept] for one in judged)
    only = ", ".join(name for name in first if name not in second) or "none"
    titles = ["member", *(f"{name}: {what}" for name in PAIR for what in ("shared B", "rules"))]
    rows = ([name, *judged[0][name][1], *judged[1][name][1]] for name in judged[0])
    text = (
        f"`{family.name}`: the first alone takes {only}; the second {', '.join(second) or 'none'}."
    )
    return "\n".join([text, "", *table(titles, rows), ""])


def _judged(
    registry: Registry, settings: Settings, family: Family, facts: DeviceFacts
) -> dict[str, tuple[bool, list[str]]]:
    """Return for each member whether a part can run it, and the cells that say why."""
    target = str(facts.architecture)
    one = registry.backend("cuda" if target.startswith("sm_") else "hip")
    members = members_of(registry, family, one.dialect)
    built = Adaptor(one, registry, BuildCache()).build(family, members, target)
    shapes = ShapeFilter(family.name, facts, Problem(**PAIR_PROBLEM), rules=settings.rules)
    most = max(facts.shared_bytes_per_block or 0, facts.shared_bytes_per_block_optin or 0)
    found = {}
    for member in members:
        result = built[member.name]
        if isinstance(result, XpuBuildError):
            raise result
        verdict = considered(registry, shapes, family, member, one.dialect, result)
        dynamic = verdict.candidate.parameters.get("dynamic_shared_bytes", 0)
        shared = f"{dynamic + (result.facts.static_shared_bytes or 0)} of {most}"
        pruned = f"{verdict.rule}: {verdict.need} > {verdict.limit}"
        word = "survives" if verdict.is_survivor else pruned
        found[member.name] = (verdict.is_survivor, [shared, word])
    return found


def index(registry: Registry, settings: Settings) -> str:
    """Return the text of the page that stands beside the others."""
    known = parts()
    pages = "\n".join(
        f"- [{name}]({name}.md): {', '.join(targets)}" for name, targets in TARGETS.items()
    )
    listed = "\n".join(
        f"| {target} | {known[target][0] if target in known else 'none in the file'} |"
        for targets in TARGETS.values()
        for target in targets
    )
    pairs = "\n".join(
        pair_section(registry, settings, settings.family(name)) for name in PAIR_FAMILIES
    )
    problem = Problem(**PAIR_PROBLEM).key
    text = INDEX.format(pages=pages, parts=listed, problem=problem, pairs=pairs)
    return text.rstrip() + "\n"


def main(backends: Sequence[str]) -> None:
    """Write the pages of backends, and the one beside them."""
    registry = default_registry()
    settings = settings_for(registry)
    PAGES.mkdir(exist_ok=True)
    for backend in backends:
        families = settings.families.values()
        found = list(lines(registry, settings, backend, TARGETS[backend], families))
        (PAGES / f"{backend}.md").write_text(page(backend, TARGETS[backend], found), "utf-8")
    (PAGES / "README.md").write_text(index(registry, settings), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(TARGETS))
