"""What ``xpu probe run`` reports: a table a family, or a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from xpu.cli.output import margin, nanoseconds, print_table, say_where_more_is, visible

if TYPE_CHECKING:
    from xpu.model import ChoiceResult, MemberResult
    from xpu.probes import ProbeOutcome


def result_document(result: ChoiceResult) -> dict[str, Any]:
    """Return one result as JSON has it."""
    return {
        "family": result.family,
        "problem": result.problem,
        "choice": result.member or None,
        "serving": result.serving or None,
        "source": result.source,
        "stored": result.stored,
        "margin_permille": result.margin_permille,
        "tie": result.tie,
        "note": result.note,
        "memory": result.memory,
        "members": [
            {
                "name": member.name,
                "serving": member.serving or None,
                "status": member.status,
                "rule": member.rule,
                "need": member.need,
                "limit": member.limit,
                "median_ns": member.median_ns,
                "rounds": member.rounds,
                "note": member.note,
            }
            for member in result.members
        ],
    }


def print_report(
    device: str, outcomes: Sequence[ProbeOutcome], left_out: Mapping[str, int], seconds: float
) -> None:
    """Print a table for each probe and family, then what needs a sentence."""
    click.echo(f"{device}")
    groups: dict[tuple[str, str, str], list[ChoiceResult]] = {}
    for outcome in outcomes:
        result = outcome.result
        if result is not None:
            key = (outcome.probe, result.family, result.memory)
            groups.setdefault(key, []).append(result)
    for (probe, family, memory), results in groups.items():
        print_table(
            f"{family} ({probe}, {memory})",
            ["problem", "winner", "source", "margin", "time", "survivors", "pruned", "others"],
            [_row(result) for result in results],
        )
    sentences = _sentences(outcomes)
    for line in sentences:
        click.echo(visible(line))
    say_where_more_is(sentences)
    contended = _contended([outcome.result for outcome in outcomes if outcome.result])
    if contended:
        click.echo(contended)
    if not outcomes:
        click.echo("there was nothing to look at; see: xpu probe list, xpu doctor")
    print_left_out(left_out)
    plural = "" if len(outcomes) == 1 else "s"
    click.echo(f"{len(outcomes)} result{plural} in {seconds:.1f} s")


def print_left_out(left_out: Mapping[str, int]) -> None:
    """Say which kinds of a model's matrices no family serves, if any."""
    if left_out:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(left_out.items()))
        click.echo(visible(f"left out, no family for: {kinds}"))


def _sentences(outcomes: Sequence[ProbeOutcome]) -> list[str]:
    """Say what a table cannot, each sentence once: notes, members that failed, errors."""
    from xpu.choice.foreign_load import note_without_load

    about: dict[tuple[str, str], dict[str, str]] = {}
    for outcome in outcomes:
        result = outcome.result
        if result is None:
            about.setdefault((outcome.probe, outcome.error), {})[""] = outcome.error
            continue
        family, problem = result.family, result.problem
        said = note_without_load(result)
        if said:
            # What differs in nothing but the problem is said once, for all of them.
            same = said.replace(problem, "*")
            note = said.removeprefix(f"{family} {problem}: ")
            about.setdefault((family, same), {})[problem] = note
        # A refusal's note has said it of every member.
        for member in () if result.source == "refused" else result.members:
            if member.note and member.status not in ("survivor", "left", "pruned"):
                note = f"{member.status}: {member.brief}"
                about.setdefault((f"{family} {member.name}", note), {})[""] = note
    return [
        f"{' '.join([subject, ', '.join(notes)]).rstrip()}: {next(iter(notes.values()))}"
        for (subject, _), notes in about.items()
    ]


def _contended(results: Sequence[ChoiceResult]) -> str:
    """Say of all answers at once that others' work kept them from being kept."""
    from xpu.choice.foreign_load import load_percent

    shares = [result.foreign_load or 0.0 for result in results if result.is_contended]
    if not shares:
        return ""
    least, most = load_percent(min(shares)), load_percent(max(shares))
    held = f"{most}" if least == most else f"{least} to {most}"
    was = "was" if len(shares) == 1 else "were"
    return (
        f"{len(shares)} of {len(results)} answers {was} not kept: others held {held} % of the "
        "device while timing; run again when it is quiet"
    )


def _row(result: ChoiceResult) -> list[Any]:
    by_status: dict[str, list[MemberResult]] = {}
    for member in result.members:
        by_status.setdefault(member.status, []).append(member)
    survivors = by_status.pop("survivor", []) + by_status.pop("left", [])
    pruned = by_status.pop("pruned", [])
    winner = next((member for member in survivors if member.name == result.member), None)
    others = [f"{m.name} {status}" for status, members in by_status.items() for m in members]
    return [
        result.problem,
        _winner(result),
        result.source,
        margin(result.margin_permille, is_tie=result.tie),
        nanoseconds(winner.median_ns if winner else None),
        [_timed(member) for member in survivors],
        # Where a family's own code failed nothing is known of its members.
        [_pruned(member) for member in pruned] or ("none" if result.members else None),
        others,
    ]


def _winner(result: ChoiceResult) -> str:
    if not result.member:
        return "none"
    return f"{result.member} ({result.serving})" if result.serving else result.member


def _pruned(member: MemberResult) -> str:
    if member.rule is None:  # a route that takes no part
        return f"{member.name}: {member.brief}"
    return f"{member.name} {member.rule}: {member.need} > {member.limit}"


def _timed(member: MemberResult) -> str:
    if member.median_ns is None:
        return member.title
    left = " left" if member.status == "left" else ""
    return f"{member.title} {nanoseconds(member.median_ns)}{left}"
