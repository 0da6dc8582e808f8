"""What ``xpu tune`` reports: what was answered and what is left, or what it would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from xpu.cli.output import print_json, print_table, visible
from xpu.cli.probe_report import print_left_out, print_report, result_document

if TYPE_CHECKING:
    from xpu.orchestrator import Orchestrator, Tuning
    from xpu.probes import Question, Questions

_WHY_LEFT: Final = {
    "budget": "the budget is spent",
    "interrupted": "it was interrupted",
    "elsewhere": "another process is timing them",
    "contended": "others held the device",
}


def print_tuning(
    orchestrator: Orchestrator,
    tuning: Tuning,
    stopped: str,
    questions: Questions,
    left_out: Mapping[str, int],
    seconds: float,
    as_json: bool,
) -> None:
    """Print every answer, what is left, and why (the empty text: nothing is)."""
    from xpu.probes import ProbeOutcome

    device = _device(orchestrator)
    if as_json:
        print_json(
            {
                "device": device,
                "results": [
                    {**result_document(answer.result), "seconds": round(answer.seconds, 3)}
                    for answer in tuning.answers
                ],
                "left": [_named(question) for question in tuning.left],
                "stopped": stopped or None,
                "unplanned": dict(questions.unplanned),
                "unasked": dict(questions.unasked),
                "left_out": dict(left_out),
                "seconds": round(seconds, 3),
            }
        )
        return
    outcomes = [ProbeOutcome("tune", answer.result) for answer in tuning.answers]
    if outcomes or not tuning.left:
        print_report(device, outcomes, left_out, seconds)
    _print_not_part(questions)
    _print_left(tuning, stopped)
    if orchestrator.store is None:
        click.echo("nothing is kept: XPU_STORE is set and empty, which means no store")


def print_plan(
    orchestrator: Orchestrator, questions: Questions, left_out: Mapping[str, int], as_json: bool
) -> None:
    """Print what would be tuned, and what is known of it already."""
    rows = [_foreseen(orchestrator, question) for question in questions.asked]
    states = [row["state"] for row in rows]
    document = {
        "device": _device(orchestrator),
        "problems": rows,
        "stored": states.count("stored"),
        "to_time": states.count("to_time"),
        "unplanned": dict(questions.unplanned),
        "unasked": dict(questions.unasked),
        "left_out": dict(left_out),
    }
    if as_json:
        print_json(document)
        return
    print_table(
        f"{document['device']}: what would be tuned",
        ["family", "problem", "memory", "state", "member", "note"],
        [[*row.values()] for row in rows],
    )
    _print_not_part(questions)
    print_left_out(left_out)
    click.echo(f"{len(rows)} problems: {document['stored']} stored, {document['to_time']} to time")


def _foreseen(orchestrator: Orchestrator, question: Question) -> dict[str, Any]:
    """Say what would be answered without timing."""
    result = orchestrator.foresee(question.family, question.problem, question.memory)
    return {
        **_named(question),
        "state": "to_time" if result is None else result.source,
        "choice": None if result is None else result.member or None,
        "note": "" if result is None else result.note,
    }


def _print_left(tuning: Tuning, stopped: str) -> None:
    families: dict[tuple[str, str], list[str]] = {}
    for question in tuning.left:
        key = (question.family, question.memory)
        families.setdefault(key, []).append(question.problem.key)
    if not families:
        return
    print_table(
        "left",
        ["family", "memory", "problems"],
        [[family, memory, keys] for (family, memory), keys in families.items()],
    )
    total = len(tuning.unanswered) + len(tuning.answers)
    unkept = ""
    if stopped != "contended" and tuning.unkept:
        unkept = f" (for {len(tuning.unkept)} of them others held the device)"
    click.echo(
        f"{len(tuning.left)} of {total} problems are left, {_WHY_LEFT[stopped]}{unkept}; "
        "run the same command again to go on"
    )


def _print_not_part(questions: Questions) -> None:
    for name, why in questions.unplanned.items():
        click.echo(
            visible(f"probe {name} is no part of this: {why}; run it with: xpu probe run {name}")
        )
    for problem, why in questions.unasked.items():
        click.echo(visible(f"{problem} is no part of this: {why}"))


def _named(question: Question) -> dict[str, Any]:
    return {
        "family": question.family,
        "problem": question.problem.key,
        "memory": question.memory,
    }


def _device(orchestrator: Orchestrator) -> str:
    return orchestrator.facts.name or orchestrator.facts.backend
