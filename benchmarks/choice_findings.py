"""From oracles and choices to rows, verdicts and merged pieces of ``choice_quality.py``.

Pure functions of what the processes answered; nothing here runs anything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from standings import APART, Standing, best_of, flips, noise_of, pooled, regret, tally

TRITON: Final = "Triton, half"
"""Stands where a family's name does."""
WORST: Final = 0.01
MEDIAN: Final = 0.002
COST_S: Final = 0.1
COST_POINT: Final = (128, 4096, 4096)
CHEAPER: Final = 5.0
COLUMNS: Final = {
    "family": ("family", "{}"),
    "problem": ("m x n x k", "{}"),
    "members": ("members", "{}"),
    "best": ("oracle's best", "{}"),
    "best_us": ("µs", "{:.1f}"),
    "rounds": ("rounds", "{}"),
    "noise": ("noise %", "{:.2f}"),
    "winners": ("chosen", "{}"),
    "worst": ("worst regret %", "{:.2f}"),
    "median": ("median %", "{:.2f}"),
    "flips": ("flips", "{}"),
    "seconds": ("choice s", "{:.3f}"),
    "slowest": ("slowest s", "{:.3f}"),
    "check": ("check s", "{:.3f}"),
    "cheaper": ("Triton/XPU", "{:.1f}"),
}

Asked = dict[str, Any]
"""A question with all answers: ``family``, ``point``, ``oracles``, ``runs``."""


def asked(family: str, point: Sequence[int]) -> Asked:
    """Return a question that nobody has answered yet."""
    return {"family": family, "point": list(point), "oracles": [], "runs": []}


def add_answers(questions: Sequence[Asked], answers: Sequence[Any], to: str) -> None:
    """Put a process's answers, in the order of the questions, to their ``oracles`` or ``runs``."""
    for question, answer in zip(questions, answers, strict=True):
        question[to].append(answer)


def merged(documents: Iterable[Sequence[Asked]]) -> list[Asked]:
    """Put the pieces of a run, or several runs of one piece, together."""
    found: dict[tuple[Any, ...], Asked] = {}
    for document in documents:
        for one in document:
            key = (one["family"], *one["point"])
            into = found.setdefault(key, asked(one["family"], one["point"]))
            into["oracles"] += one["oracles"]
            into["runs"] += one["runs"]
    return sorted(
        found.values(), key=lambda one: (one["family"] == TRITON, *one["point"][1:], *one["point"])
    )


def merged_conditions(documents: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what holds for all pieces once, and what differs side by side."""
    names = dict.fromkeys(name for document in documents for name in document)
    return {
        name: " | ".join(
            dict.fromkeys(document[name] for document in documents if name in document)
        )
        for name in names
    }


def rows(questions: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return a row for each question that has an answer."""
    made = [_row(question) for question in questions if question["runs"] or question["oracles"]]
    triton = {row["problem"]: row["seconds"] for row in made if row["family"] == TRITON}
    for row in made:
        theirs, ours = triton.get(row["problem"]), row["seconds"]
        if row["family"] != TRITON and theirs and ours:
            row["cheaper"] = theirs / ours
    return made


def _row(question: Asked) -> dict[str, Any]:
    runs, oracles = question["runs"], question["oracles"]
    winners = [run["winner"] for run in runs]
    row: dict[str, Any] = {
        "family": question["family"],
        "problem": "x".join(map(str, question["point"])),
        "members": max((run.get("members") or 0 for run in runs), default=None),
        "rounds": sum(oracle["rounds"] for oracle in oracles) or None,
        "winners": tally(winners) if runs else None,
        "seconds": _median(run["seconds"] for run in runs),
        "slowest": max((run["seconds"] for run in runs if run["seconds"]), default=None),
        "check": _median(run.get("check_s") for run in runs),
        "trial": _median(run.get("trial_s") for run in runs),
        "load": max((run.get("load") or 0.0 for run in runs), default=None),
    }
    standings = pooled([oracle["members"] for oracle in oracles])
    return {**row, **_judged(standings, winners)} if standings else row


def _judged(standings: Mapping[str, Standing], winners: Sequence[str | None]) -> dict[str, Any]:
    best = best_of(standings)
    judged: dict[str, Any] = {
        "best": best,
        "best_us": standings[best].us,
        "noise": 100 * noise_of(standings),
        "oracle_percent": {name: 100 * one.excess for name, one in standings.items()},
    }
    if winners:
        regrets = [100 * regret(standings, winner) for winner in winners]
        pairs = flips(standings, winners)
        judged |= {
            "regrets": regrets,
            "worst": max(regrets),
            "median": statistics.median(regrets),
            "flips": len(pairs),
            "flipped": pairs,
        }
    return judged


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def verdicts(made: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what of the limits holds."""
    ours = [row for row in made if row["family"] != TRITON]
    theirs = [row for row in made if row["family"] == TRITON]
    return [
        *_quality("XPU", ours, judges=True),
        *_quality("Triton", theirs, judges=False),
        *_cost(ours),
    ]


def _quality(who: str, made: Sequence[Mapping[str, Any]], *, judges: bool) -> list[str]:
    judged = [row for row in made if "regrets" in row]
    if not judged:
        return []
    regrets = [each for row in judged for each in row["regrets"]]
    worst, median = max(regrets), statistics.median(regrets)
    flipped = sum(row["flips"] for row in judged)
    holds = worst <= 100 * WORST and median <= 100 * MEDIAN and not flipped
    wanted = (
        f" (wanted: {WORST:.1%} at most, median {MEDIAN:.1%}, no flip): {_held(holds)}"
        if judges
        else ""
    )
    where = max(judged, key=lambda row: float(row["worst"]))
    lost = sum(math.isinf(each) for each in regrets)
    return [
        f"{who}: {len(regrets)} choices of {len(judged)} problems: worst regret {worst:.2f} % "
        f"({where['family']} {where['problem']}), median {median:.2f} %, {flipped} flips between "
        f"members more than {APART:.0%} apart{wanted}"
        + (f"; {lost} chose nothing that the oracle could read" if lost else "")
    ]


def _cost(made: Sequence[Mapping[str, Any]]) -> list[str]:
    key = "x".join(map(str, COST_POINT))
    notes = [
        f"cost: {row['family']} {key}, {row['members']} members: {row['seconds']:.3f} s in "
        f"the median, its check {row['check'] or 0:.3f} s beside it "
        f"(wanted: {COST_S} s with 8 members): {_held(row['seconds'] <= COST_S)}"
        for row in made
        if row["problem"] == key and row["seconds"]
    ]
    beside = [row for row in made if row.get("cheaper")]
    if beside:
        least = min(beside, key=lambda row: float(row["cheaper"]))
        notes.append(
            f"cost: Triton's tuning takes {least['cheaper']:.1f} times as long or more, at "
            f"{len(beside)} choices (least: {least['family']} {least['problem']}; wanted: "
            f"{CHEAPER:g}): {_held(least['cheaper'] >= CHEAPER)}"
        )
    return notes


def _held(holds: bool) -> str:
    return "met" if holds else "NOT met"
