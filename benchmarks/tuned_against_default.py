"""What tuning brings: each family's tuned member against its default, on the default problems.

    python benchmarks/tuned_against_default.py [--markdown FILE] [--json FILE]

Families, problems and memory modes are those of ``probes.toml``. Both members are bound to the
same arrays and take turns; a ratio is the default's time over the tuned member's within a round.
A tuned member is slower beyond noise when it was so in three quarters of the rounds and by more
than a trial can tell apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from report import Report, arguments
from tuned import bind_member, tune
from turns import Arm, Spread, play

from xpu import Orchestrator, Problem
from xpu.measure import rotation_count

ALIKE: Final = 0.997  # a trial takes members closer than this for equals. Source: the design
COLUMNS: Final = {
    "family": ("family", "{}"),
    "problem": ("problem", "{}"),
    "memory": ("memory", "{}"),
    "default": ("default", "{}"),
    "default_us": ("default µs", "{:.1f}"),
    "tuned": ("tuned", "{}"),
    "tuned_us": ("tuned µs", "{:.1f}"),
    "ratio": ("default/tuned", "{:.3f}"),
    "quartiles": ("quartiles", "{}"),
    "rounds": ("rounds", "{}"),
    "margin": ("trial's margin ‰", "{}"),
    "finding": ("finding", "{}"),
    "load": ("others", "{:.0%}"),
}


def subjects(orchestrator: Orchestrator) -> Iterator[tuple[str, Problem, str]]:
    """Name each family, problem and memory mode that the probes look at."""
    for plan in orchestrator.settings.probes.values():
        for name in plan.families:
            if name in orchestrator.settings.families:
                family = orchestrator.settings.family(name)
                for key in plan.problems:
                    yield name, Problem.parse(family.problem, key), plan.memory


class Contest:
    """Both members on the same arrays."""

    def __init__(self, orchestrator: Orchestrator, report: Report, seconds: float) -> None:
        self._orchestrator, self._report, self._seconds = orchestrator, report, seconds
        self._rng = np.random.default_rng()

    def row(self, name: str, problem: Problem, memory: str) -> dict[str, Any]:
        """Tune, let both take turns, and say what came of it."""
        bind = partial(bind_member, self._orchestrator, name, problem)
        default = self._orchestrator.bind(name, memory=None, **problem.sizes).member
        tuned = tune(self._orchestrator, self._report, name, problem, memory)
        row = {
            "family": name,
            "problem": problem.key,
            "memory": memory,
            "default": default,
            "tuned": tuned.member,
            "margin": tuned.margin_permille,
        }
        if tuned.member == default:
            return {**row, "finding": "the same", "load": tuned.foreign_load}
        arrays = self._arrays(name, problem, memory)
        arms = [
            Arm(member, [partial(bind(member), *inputs, out=out) for *inputs, out in arrays])
            for member in (default, tuned.member)
        ]
        self._report.wait_quiet()
        self._report.load()
        times = play(arms, self._seconds)
        ratio = Spread.of(times[:, 0] / times[:, 1])
        return {
            **row,
            "default_us": float(np.median(times[:, 0])),
            "tuned_us": float(np.median(times[:, 1])),
            "ratio": ratio.median,
            "quartiles": f"{ratio.low:.3f}-{ratio.high:.3f}",
            "rounds": ratio.count,
            "finding": finding(ratio),
            "load": max(self._report.load() or 0.0, tuned.foreign_load or 0.0),
        }

    def _arrays(self, name: str, problem: Problem, memory: str) -> list[list[Any]]:
        """Return a call's arrays, the result last: one set, or as many as make memory cold."""
        family = self._orchestrator.settings.family(name)
        design = self._orchestrator.registry.design_of(family)
        data = dict(design.data(problem, family.constants, self._rng))
        *_, result = design.arguments
        out = np.empty(design.shapes(problem, family.constants)[result.name], result.dtype)
        touched = design.bytes_touched(problem, family.constants)
        cache = self._orchestrator.facts.last_level_cache_bytes
        copies = rotation_count(cache, touched) if memory == "cold" else 1
        prepared = design.preparation.argument if design.preparation else None
        return [
            [
                self._orchestrator.prepare(name, data[argument.name])
                if argument.name == prepared
                else np.array(data[argument.name])
                for argument in design.arguments
                if argument.access == "read"
            ]
            + [out]
            for _ in range(copies)
        ]


def finding(ratio: Spread) -> str:
    """Say in a word what a ratio means."""
    if ratio.high < 1 and ratio.median < ALIKE:
        return "SLOWER"
    return "faster" if ratio.low > 1 and ratio.median > 1 / ALIKE else "alike"


def measure(args: argparse.Namespace, orchestrator: Orchestrator) -> None:
    """Go through the problems and report."""
    report = Report("Tuned against default", COLUMNS, orchestrator)
    contest = Contest(orchestrator, report, args.seconds)
    for name, problem, memory in subjects(orchestrator):
        report.add(**contest.row(name, problem, memory))
    found = [row["finding"] for row in report.rows]
    report.notes += [
        "a trial checks members before it times them; 'the same': the default is the tuned one",
        f"verdict: of {len(found)} problems the tuned member is faster in {found.count('faster')}, "
        f"alike or the same in {found.count('alike') + found.count('the same')}, slower in "
        f"{found.count('SLOWER')} (wanted: 0): {'NOT met' if 'SLOWER' in found else 'met'}",
    ]
    report.finish(args)


def main() -> None:
    """Measure and print."""
    parser = arguments("Tuned members against defaults on the default problems.")
    parser.add_argument("--seconds", type=float, default=6.0, help="of turns at each problem")
    args = parser.parse_args()
    with Orchestrator(store=None, tuning="off") as orchestrator:
        measure(args, orchestrator)


if __name__ == "__main__":
    main()
