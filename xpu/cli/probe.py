"""``xpu probe``: measure once, and remember."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpu.cli.groups import NamingGroup
from xpu.cli.model_file import DEFAULT_BATCHES, model_option, opened_model
from xpu.cli.output import device_options, json_option, memory_option, print_json
from xpu.cli.probe_report import print_report, result_document

if TYPE_CHECKING:
    from xpu.orchestrator import Orchestrator
    from xpu.probes import ModelProblems, ProbeOutcome


@click.group(cls=NamingGroup)
def probe() -> None:
    """List probes, or run them."""


@probe.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the probes and what each is to look at."""
    from xpu.building import settings_for
    from xpu.cli.output import print_table
    from xpu.registry import default_registry

    registry = default_registry()
    plans = settings_for(registry).probes
    document: list[dict[str, Any]] = [
        {
            "name": one.name,
            "summary": one.summary,
            "families": list(plans[one.name].families) if one.name in plans else [],
            "problems": list(plans[one.name].problems) if one.name in plans else [],
            "memory": plans[one.name].memory if one.name in plans else None,
        }
        for one in registry.probes.values()
    ]
    if as_json:
        print_json(document)
        return
    print_table(
        "Probes",
        ["name", "summary", "families", "problems", "memory"],
        [
            [
                one["name"],
                one["summary"],
                one["families"],
                one["problems"],
                one["memory"],
            ]
            for one in document
        ],
    )


@probe.command("run")
@click.argument("names", nargs=-1)
@model_option
@click.option("--batch", help="Batch sizes with --model, for instance 1,8,64 or 1-16.")
@memory_option
@device_options
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    names: tuple[str, ...],
    model_path: Path | None,
    batch: str | None,
    memory: str | None,
    backend: str | None,
    device: int,
    as_json: bool,
) -> None:
    """Run the probes NAMES (all when none is named) and remember their answers.

    Each answer is stored as it comes: a run that is interrupted loses none of them.
    """
    from xpu.cli.places import open_orchestrator
    from xpu.probes import parse_batches

    if batch is not None and model_path is None:
        raise click.UsageError("--batch goes with --model")
    batches = parse_batches(DEFAULT_BATCHES if batch is None else batch)
    started = time.perf_counter()
    outcomes: list[ProbeOutcome] = []
    is_interrupted = False
    with (
        open_orchestrator(backend, device) as orchestrator,
        opened_model(orchestrator.registry, model_path, batches) as model,
    ):
        try:
            # Not list(...): what came before an interruption is reported.
            outcomes.extend(_shown(orchestrator, names, memory, model))
        except KeyboardInterrupt:
            is_interrupted = True
        seconds = time.perf_counter() - started
        left_out = (
            {} if model is None else model.left_out(tuple(orchestrator.settings.families.values()))
        )
        # An interruption before the first result is told of once, at the end.
        if as_json or outcomes or not is_interrupted:
            _report(orchestrator, outcomes, left_out, seconds, as_json)
    if is_interrupted:
        raise KeyboardInterrupt
    if any(outcome.result is None or not outcome.result.member for outcome in outcomes):
        ctx.exit(1)


def _shown(
    orchestrator: Orchestrator,
    names: tuple[str, ...],
    memory: str | None,
    model: ModelProblems | None,
) -> Iterator[ProbeOutcome]:
    """Run the probes, with a line on a terminal that says how far they are."""
    from rich.console import Console

    console = Console(stderr=True)
    outcomes = orchestrator.run_probes(names, memory=memory, model=model)
    if not console.is_terminal:
        yield from outcomes
        return
    with console.status("building and timing") as status:
        for count, outcome in enumerate(outcomes, 1):
            result = outcome.result
            last = "" if result is None else f": {result.family} {result.problem} {result.member}"
            status.update(f"{count} done, {outcome.probe}{last}")
            yield outcome


def _report(
    orchestrator: Orchestrator,
    outcomes: list[ProbeOutcome],
    left_out: Mapping[str, int],
    seconds: float,
    as_json: bool,
) -> None:
    device = orchestrator.facts.name or orchestrator.facts.backend
    if not as_json:
        print_report(device, outcomes, left_out, seconds)
        return
    document: dict[str, Any] = {
        "device": device,
        "results": [
            {"probe": outcome.probe, **result_document(outcome.result)}
            for outcome in outcomes
            if outcome.result is not None
        ],
        "errors": [
            {"probe": outcome.probe, "error": outcome.error}
            for outcome in outcomes
            if outcome.result is None
        ],
        "left_out": dict(left_out),
        "seconds": round(seconds, 3),
    }
    print_json(document)
