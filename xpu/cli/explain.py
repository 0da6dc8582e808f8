"""``xpu explain``: which members a device can run on a problem, and why the others cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpu.cli.output import (
    cell,
    device_options,
    json_option,
    print_json,
    print_table,
    say_what_is_forced,
    say_where_more_is,
)

if TYPE_CHECKING:
    from xpu.filter import ShapeFilter
    from xpu.model import Family, Verdict


@click.command()
@click.argument("family")
@click.argument("problem")
@click.option(
    "--facts",
    "facts_path",
    type=click.Path(path_type=Path),
    help="Explain for the device in a facts file instead of this machine's.",
)
@device_options
@json_option
def explain(
    family: str,
    problem: str,
    facts_path: Path | None,
    backend: str | None,
    device: int,
    as_json: bool,
) -> None:
    """Explain a FAMILY's members on a PROBLEM such as 512x4096x4096.

    On this machine members are built, so that rules see what the compiler made of them.
    For a facts file nothing is built: what the code needs is absent and prunes nothing.
    Of a family of routes each is explained by its default, and then every member of those that
    take part.
    """
    from xpu.orchestrator import forced_member

    if facts_path is not None:
        shapes, *of_routes = _by_facts(family, problem, facts_path, backend)
    else:
        shapes, *of_routes = _here(family, problem, backend, device)
    forced = forced_member(family)
    if as_json:
        routes = {"routes": [_document(each) for each in of_routes]} if of_routes else {}
        print_json(_document(shapes) | routes | {"override": forced})
        return
    for each in (shapes, *of_routes):
        _print(each)
    say_what_is_forced(family, forced)


def _here(family: str, problem: str, backend: str | None, device: int) -> list[ShapeFilter]:
    from xpu.cli.places import open_orchestrator
    from xpu.model import Problem

    with open_orchestrator(backend, device, with_store=False) as orchestrator:
        declared = orchestrator.settings.family(family)
        sizes = Problem.parse(declared.problem, problem)
        shapes = orchestrator.considered(family, sizes)
        names = _routes(shapes, declared)
        return [shapes, *(orchestrator.considered(name, sizes) for name in names)]


def _routes(shapes: ShapeFilter, family: Family) -> list[str]:
    """Name the routes that take part."""
    names = [verdict.candidate.name for verdict in shapes.verdicts]
    return [route.family.name for route in family.routes if route.family.name in names]


def _by_facts(family: str, problem: str, path: Path, backend: str | None) -> list[ShapeFilter]:
    from xpu.cli.facts_file import check_backend, read_facts
    from xpu.model import Problem
    from xpu.orchestrator import considered_by_facts, settings_for
    from xpu.registry import default_registry

    registry = default_registry()
    settings = settings_for(registry)
    declared = settings.family(family)
    further = {name for one in registry.backends.values() for name in one.further_facts}
    facts = read_facts(path, further)
    if backend is not None:
        check_backend(path, facts, backend)
    dialect = None if backend is None else registry.backend(backend).dialect
    sizes = Problem.parse(declared.problem, problem)
    shapes = considered_by_facts(registry, settings, declared, sizes, facts, dialect)
    return [
        shapes,
        *(
            considered_by_facts(registry, settings, settings.family(name), sizes, facts, dialect)
            for name in _routes(shapes, declared)
        ),
    ]


def _document(shapes: ShapeFilter) -> dict[str, Any]:
    return {
        "family": shapes.name,
        "problem": shapes.problem.key,
        "survivors": [_survivor(verdict) for verdict in shapes.survivors],
        "pruned": [
            {
                **_survivor(verdict),
                "rule": verdict.rule,
                "title": verdict.title,
                "need": verdict.need,
                "limit": verdict.limit,
            }
            for verdict in shapes.pruned
        ],
        "aside": [
            {"name": one.name, "status": one.status, "note": one.note} for one in shapes.aside
        ],
        "refusal": shapes.refusal(),
    }


def _survivor(verdict: Verdict) -> dict[str, Any]:
    return {"name": verdict.candidate.name, **verdict.records}


def _print(shapes: ShapeFilter) -> None:
    records = sorted({name for verdict in shapes.verdicts for name in verdict.records})
    rows = [
        [
            verdict.candidate.name,
            "survivor" if verdict.is_survivor else "pruned",
            "" if verdict.is_survivor else f"{verdict.rule} {verdict.title}",
            verdict.need,
            verdict.limit,
            *(cell(verdict.records.get(name)) for name in records),
        ]
        for verdict in shapes.verdicts
    ]
    blanks = [None] * (2 + len(records))
    rows += [[one.name, one.status, one.brief, *blanks] for one in shapes.aside]
    print_table(
        f"{shapes.name} {shapes.problem.key}",
        ["member", "status", "why", "need", "limit", *records],
        rows,
    )
    say_where_more_is(one.brief for one in shapes.aside)
    if shapes.refusal():  # the table has said why
        click.echo(f"{shapes.name}: nothing can be launched for {shapes.problem.key}")
