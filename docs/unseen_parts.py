"""Writes `unseen-parts.md`: what the rules say of every part in a file of reported facts.

    python docs/unseen_parts.py

Every part goes through every family that is configured, in each dialect with a grid that its
members name. Nothing is built: what compiled code needs is absent, and prunes nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, Family, Problem
from xpu.orchestrator import considered_by_facts, settings_for
from xpu.registry import Registry, default_registry
from xpu.settings import Settings

PAGE: Final = Path(__file__).with_name("unseen-parts.md")
FACTS: Final = Path(__file__).parents[1] / "tests" / "vectors" / "devices.toml"
SIZES: Final = {"m": 8, "n": 4096, "k": 4096}
"""The sizes of a family that no probe looks at; another size is 4096."""

HEAD: Final = """# Parts that nobody here has seen

What the rules say of {count} real parts, from the facts that their drivers report and nothing else.
There is no table of devices in XPU: this page is the answer of the same filter that runs at every
bind. `python docs/unseen_parts.py` writes it anew; the parts are those of
`tests/vectors/devices.toml`, with the source of each figure. For one part of your own:
`xpu explain FAMILY PROBLEM --facts FILE`.

Nothing is built for it: registers and spills of compiled code are absent, and prune nothing. On a
machine with the part they are read, and may prune more. Families with the same answers share a
table. "pruned" gives the rule, what the member needs and the limit; "resident" and "splits of k"
are of the survivors, in their order: groups that a multiprocessor holds at once, and the parts of k
that bring the tiles up to the multiprocessors (? where facts that it takes are absent). A family of
routes has no shapes of its own: what stands here of its routes' families is what it can run.
"""


def parts() -> Mapping[str, DeviceFacts]:
    """Return the facts of every part by name."""
    tables = tomllib.loads(FACTS.read_text("utf-8"))["devices"]
    return {name: DeviceFacts.from_mapping(facts, where=name) for name, facts in tables.items()}


def problem_of(family: Family, settings: Settings) -> Problem:
    """Return the last problem that a probe looks at, else one of the shape of a model's.

    What it looks at for a family stands for those with the same members.
    """
    alike = {
        other.name
        for other in settings.families.values()
        if (other.design, other.members) == (family.design, family.members)
    }
    for plan in settings.probes.values():
        if alike & set(plan.families) and plan.problems:
            return Problem.parse(family.problem, plan.problems[-1])
    return Problem(**{name: SIZES.get(name, 4096) for name in family.problem})


def dialects_of(registry: Registry, family: Family, problem: Problem) -> list[str]:
    """Return the dialects with a grid that members name: a host's says nothing of such parts."""
    named = dict.fromkeys(
        (dialect, member) for member in family.members for dialect in member.dialects or ()
    )
    launches = {
        dialect: registry.launch_for(family, dialect, member.parameters, problem)
        for dialect, member in named
    }
    return [dialect for dialect, launch in launches.items() if launch.block is not None]


def considered(registry: Registry, settings: Settings) -> Iterator[tuple[str, str, ShapeFilter]]:
    """Yield dialect, part and the filter's word, for every family."""
    facts = parts()
    for family in settings.families.values():
        if family.routes:
            continue  # they have no shapes of their own, and those of each route stand here
        problem = problem_of(family, settings)
        for dialect in dialects_of(registry, family, problem):
            for part, known in facts.items():
                yield (
                    dialect,
                    part,
                    considered_by_facts(registry, settings, family, problem, known, dialect),
                )


def row(shapes: ShapeFilter) -> tuple[str, ...]:
    """Return the cells of one part: survivors or the refusal, their figures, what is pruned."""
    kept = shapes.survivors
    return (
        ", ".join(verdict.candidate.name for verdict in kept) or "**refused**",
        ", ".join(_figure(verdict.resident_groups) for verdict in kept),
        ", ".join(_figure(verdict.splits) for verdict in kept),
        "; ".join(f"{v.candidate.name}: {v.rule} {v.need} > {v.limit}" for v in shapes.pruned),
    )


def _figure(value: object) -> str:
    return "?" if value is None else str(value)


def page(registry: Registry | None = None) -> str:
    """Return the page's text."""
    registry = default_registry() if registry is None else registry
    settings = settings_for(registry)
    tables: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    keys: dict[tuple[str, str], str] = {}
    for dialect, part, shapes in considered(registry, settings):
        tables.setdefault((dialect, shapes.name), {})[part] = row(shapes)
        keys[dialect, shapes.name] = shapes.problem.key
    # Families with the same answers, by their rows.
    shared: dict[tuple[str, str, tuple[object, ...]], list[str]] = {}
    for (dialect, family), rows in tables.items():
        same = (dialect, keys[dialect, family], tuple(rows.items()))
        shared.setdefault(same, []).append(family)
    text = [HEAD.format(count=len(parts()))]
    for (dialect, key, _), families in shared.items():
        rows = tables[dialect, families[0]]
        text.append(f"## {', '.join(families)} on {key}, dialect `{dialect}`\n")
        text += _table(("part", "survivors", "resident", "splits of k", "pruned"), rows.items())
        text.append("")
    return "\n".join(text).rstrip() + "\n"


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for part, cells in rows:
        yield f"| {part} | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
