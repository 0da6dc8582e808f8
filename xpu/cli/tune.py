"""``xpu tune``: answer many questions, within a budget, each kept as it comes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from xpu.cli.model_file import DEFAULT_BATCHES, model_option, opened_model
from xpu.cli.output import device_options, json_option, memory_option
from xpu.cli.tune_report import print_plan, print_tuning

if TYPE_CHECKING:
    from xpu.orchestrator import Orchestrator, Tuning
    from xpu.probes import ModelProblems, Questions

FAILED: Final = 1
LEFT: Final = 3
"""Status of a run that failed nowhere and has left something: run it again."""

INTERRUPTED: Final = "interrupted"
ELSEWHERE: Final = "elsewhere"
CONTENDED: Final = "contended"


def _number(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):  # a range lets what is no number through
        raise click.BadParameter(f"{value} is no number of seconds; allowed: above 0, as in 90")
    return value


@click.command()
@model_option
@click.option(
    "--problem",
    "named",
    multiple=True,
    help="A problem, for instance q4k_tile:512x4096x4096; may be given again.",
)
@click.option("--batch", help="Values of m, for instance 1-16,64,512.")
@memory_option
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    callback=_number,
    help="Seconds after which no further problem is begun.",
)
@click.option("--dry-run", is_flag=True, help="List what would be tuned; build and time nothing.")
@device_options
@json_option
@click.pass_context
def tune(
    ctx: click.Context,
    model_path: Path | None,
    named: tuple[str, ...],
    batch: str | None,
    memory: str | None,
    budget: float | None,
    dry_run: bool,
    backend: str | None,
    device: int,
    as_json: bool,
) -> None:
    """Find and remember the best member for many problems.

    They are those given with --problem, those that the probes look at in a model's matrices
    (--model), or, with neither, those that the probes are configured to look at. What is stored
    already is recalled, so an interrupted or unfinished run goes on where it stopped.

    Status 0: every problem has its answer. 1: some cannot be served. 3: some are left, because
    the budget is spent, others held the device, or another process was timing the same.
    """
    from xpu.cli.places import open_orchestrator
    from xpu.orchestrator import Tuning
    from xpu.probes import parse_batches

    started = time.perf_counter()
    batches = None if batch is None else parse_batches(batch)
    with ExitStack() as stack:
        orchestrator = stack.enter_context(open_orchestrator(backend, device))
        of_model = batches or parse_batches(DEFAULT_BATCHES)
        model = stack.enter_context(opened_model(orchestrator.registry, model_path, of_model))
        questions = _questions(orchestrator, named, model, memory, batches)
        left_out = _left_out(orchestrator, model)
        if dry_run:
            print_plan(orchestrator, questions, left_out, as_json)
            return
        left_s = None if budget is None else budget - (time.perf_counter() - started)
        tuning = Tuning(orchestrator, questions.asked, model=model, budget_s=left_s)
        stopped = _run(tuning)
        seconds = time.perf_counter() - started
        print_tuning(orchestrator, tuning, stopped, questions, left_out, seconds, as_json)
    if stopped == INTERRUPTED:
        raise KeyboardInterrupt
    ctx.exit(_status(tuning))


def _questions(
    orchestrator: Orchestrator,
    named: Sequence[str],
    model: ModelProblems | None,
    memory: str | None,
    batches: Sequence[int] | None,
) -> Questions:
    from xpu.probes import Planner, Questions

    planner = Planner(
        orchestrator.settings,
        orchestrator.registry,
        orchestrator.backend.dialect,
        memory=memory,
        batches=batches,
    )
    by_name = planner.named(named)
    if named and model is None:
        return by_name
    probed = planner.probed(model)
    asked = tuple(dict.fromkeys([*by_name.asked, *probed.asked]))
    return Questions(asked, probed.unplanned, by_name.unasked)


def _left_out(orchestrator: Orchestrator, model: ModelProblems | None) -> Mapping[str, int]:
    if model is None:
        return {}
    return model.left_out(tuple(orchestrator.settings.families.values()))


def _run(tuning: Tuning) -> str:
    """Answer what there is; return why something is left, the empty text if nothing is."""
    try:
        with _progress(len(tuning.unanswered)) as told:
            for _ in tuning.run():
                told(tuning)
    except KeyboardInterrupt:
        return INTERRUPTED
    if tuning.unanswered:
        return "budget" if tuning.is_spent else ELSEWHERE
    return CONTENDED if tuning.left else ""


def _status(tuning: Tuning) -> int:
    if any(not answer.result.member for answer in tuning.answers):
        return FAILED
    return LEFT if tuning.left else 0


class _Bar:
    """A line on a terminal: how far it is, what came last, and how long the rest will take."""

    def __init__(self, progress: Any, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total, last="building and timing", left="")

    def __call__(self, tuning: Tuning) -> None:
        result, seconds = tuning.answers[-1].result, tuning.seconds_left()
        self._progress.update(
            self._task,
            completed=len(tuning.answers),
            last=f"{result.family} {result.problem} {result.member or result.source}",
            left="" if seconds is None else f"about {duration(seconds)} left",
        )


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Yield what takes a tuning after each answer; in a pipe it says nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    texts = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("left", "last")]
    columns = (BarColumn(), MofNCompleteColumn(), *texts)
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress, total)


def duration(seconds: float) -> str:
    """Write a time that lies ahead, as exactly as it is known."""
    whole = round(seconds)
    if whole < 60:
        return f"{max(whole, 1)} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
