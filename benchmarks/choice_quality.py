"""How good, how steady and how dear choices are; and Triton's autotuner, beside them.

    python benchmarks/choice_quality.py [--piece 1/4] [--runs 20] [--json FILE] [--markdown FILE]
    python benchmarks/choice_quality.py merge A.json B.json … [--json FILE] [--markdown FILE]

Oracles (every survivor read in turns, cold, for long), one process before and one after the
fresh tuning processes, each of which answers every question of the piece once. The device is
never used by two of them at a time. Triton's autotuner is asked likewise, on a half-precision
product of the same sizes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from choice_findings import (
    COLUMNS,
    COST_POINT,
    TRITON,
    Asked,
    add_answers,
    asked,
    merged,
    merged_conditions,
    rows,
    verdicts,
)
from choice_processes import MEMORY, ask
from report import Sheet, arguments, machine
from subjects import FORMATS, ROWS, SERVING, SIZES, Point, families, numbers, pairs, piece, points

from xpu import Orchestrator

TRITON_POINTS: Final = (
    (1, 4096, 4096),
    (16, 4096, 4096),
    (512, 4096, 4096),
    (512, 14336, 4096),
    (512, 4096, 14336),
    (2048, 4096, 4096),
)
"""Where Triton's choices are judged; at the other points its seconds alone count."""
TRITON_RUNS: Final = 6
LONGEST_S: Final = 900.0
"""No process takes this long unless something hangs; members that hang are stopped before."""
QUICK: Final[dict[str, Any]] = {
    "sizes": ((4096, 4096),),
    "rows": (1, 16, 512),
    "runs": 3,
    "oracle_seconds": 0.3,
    "triton_runs": 2,
}


class Campaign:
    """The processes of one piece, one after another."""

    def __init__(self, args: argparse.Namespace, questions: list[Asked], tritons: list[Asked]):
        self._args, self._questions, self._tritons = args, questions, tritons
        self._deadline: float = time.perf_counter() + args.seconds
        self._backend = ["--backend", args.backend]
        self.conditions: dict[str, str] = {}
        self.notes: list[str] = []

    def run(self) -> None:
        """Ask everybody, as often as time allows."""
        self._consult("before")
        if self._tritons:
            self._ask_triton()
        is_twice, longest_s = self._args.oracles > 1, 0.0
        reading_s = self._args.oracle_seconds * len(self._questions) * is_twice
        for number in range(self._args.runs):
            # An oracle does what a tuning process does, but reads for longer.
            if self._left() < reading_s + longest_s * (1 + is_twice):
                self.notes.append(f"only {number} of {self._args.runs} tuning processes fitted")
                break
            began = time.perf_counter()
            self._ask("choice_processes.py", "tune", self._questions, "runs", self._backend)
            longest_s = max(longest_s, time.perf_counter() - began)
            self._say(f"tuning process {number + 1}: {time.perf_counter() - began:.1f} s")
        if is_twice:
            self._consult("after")

    def _consult(self, when: str) -> None:
        began = time.perf_counter()
        arguments = [*self._backend, "--seconds", str(self._args.oracle_seconds)]
        answer = self._ask("choice_processes.py", "oracle", self._questions, "oracles", arguments)
        self.conditions[f"oracle's clock, {when}"] = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in (answer or {"clock": {}})["clock"].items()
        )
        self._say(f"oracle {when}: {time.perf_counter() - began:.1f} s")

    def _ask_triton(self) -> None:
        program = "triton_gemm.py"
        judged = [one for one in self._tritons if tuple(one["point"]) in TRITON_POINTS]
        # The oracle comes first: it leaves every kernel compiled on the disk.
        seconds = ["--seconds", str(self._args.oracle_seconds)]
        answer = self._ask(program, "oracle", self._tritons, "oracles", seconds)
        if answer is None:
            return
        self.conditions["peer"] = answer["versions"]
        for number in range(self._args.triton_runs):
            self._ask(program, "tune", judged if number else self._tritons, "runs", [])
        self._say("Triton is done")

    def _ask(
        self, program: str, mode: str, questions: list[Asked], to: str, arguments: list[str]
    ) -> Any:
        """Add a process's answers to the questions; where it fails, say so and go on."""
        if not questions:
            return None
        given = [{"family": one["family"], "point": one["point"]} for one in questions]
        try:
            answer = ask(program, mode, given, arguments, LONGEST_S)
        except (RuntimeError, OSError) as error:
            self.notes.append(f"WARNING: {error}")
            self._say(self.notes[-1])
            return None
        add_answers(questions, answer["answers"], to)
        self._keep()
        return answer

    def _keep(self) -> None:
        """Write what is known so far: a run that is cut short has then been worth something."""
        if self._args.json:
            document = {"measured": [*self._questions, *self._tritons]}
            self._args.json.write_text(json.dumps(document), "utf-8")

    def _left(self) -> float:
        return self._deadline - time.perf_counter()

    def _say(self, what: str) -> None:
        print(f"  {what}, {self._left():.0f} s left", file=sys.stderr, flush=True)


def chosen(args: argparse.Namespace) -> list[Point]:
    """Return the points of a piece."""
    every = points(args.sizes, args.rows)
    if COST_POINT[1:] in args.sizes and COST_POINT not in every:
        every.append(COST_POINT)
    part, of = args.piece
    return every[part - 1 :: of]


def run(args: argparse.Namespace) -> None:
    """Measure a piece and report."""
    with Orchestrator(store=None, tuning="off", backend=args.backend) as orchestrator:
        conditions = machine(orchestrator)
        questions = [
            asked(family, point)
            for point in chosen(args)
            for fmt in args.formats
            for family in families(
                orchestrator.settings, orchestrator.backend.dialect, fmt, point[0]
            )
        ]
    tritons = [asked(TRITON, point) for point in chosen(args)] if args.triton_runs else []
    campaign = Campaign(args, questions, tritons)
    campaign.run()
    conditions |= {
        "memory": MEMORY,
        "families": SERVING.format(16),
        "pieces": "{}/{}".format(*args.piece),
        **campaign.conditions,
    }
    finish(args, [*questions, *tritons], conditions, campaign.notes)


def finish(
    args: argparse.Namespace, questions: list[Asked], conditions: dict[str, str], notes: list[str]
) -> None:
    """Report."""
    sheet = Sheet("Choices against an oracle", COLUMNS, conditions)
    for row in rows(questions):
        sheet.add(**row)
    faults = {
        f"{one['family']} {'x'.join(map(str, one['point']))} {name}: {why}"
        for one in questions
        for oracle in one["oracles"]
        for name, why in oracle["faults"].items()
    }
    sheet.notes += [
        "choice s: what a choice took in the median of the tuning processes, less check s: fresh "
        "data, and each member's result compared with the reference's; Triton is given its data "
        "and checks nothing",
        "regret: the oracle's time of what was chosen over that of its best; noise: what that may "
        "be off by, the scatter of rounds or half of what the oracles' processes differ by",
        *(f"the oracle could not read {fault}" for fault in sorted(faults)),
        *dict.fromkeys(notes),
        *verdicts(sheet.rows),
    ]
    sheet.finish(args, measured=questions, said=notes)


def merge(args: argparse.Namespace) -> None:
    """Put pieces together and report anew."""
    documents = [json.loads(path.read_text("utf-8")) for path in args.files]
    finish(
        args,
        merged(document["measured"] for document in documents),
        merged_conditions([document.get("conditions", {}) for document in documents]),
        [note for document in documents for note in document.get("said", [])],
    )


def main() -> None:
    """Measure, or merge."""
    parser = arguments(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("mode", nargs="?", default="run", choices=("run", "merge"))
    parser.add_argument("files", nargs="*", type=Path, help="JSON files to merge")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--piece", type=piece, default=(1, 1), metavar="I/N")
    parser.add_argument("--seconds", type=float, default=440.0, help="for the whole piece")
    parser.add_argument("--runs", type=int, default=20, help="fresh tuning processes")
    parser.add_argument("--oracle-seconds", type=float, default=1.0, help="a question, each time")
    parser.add_argument("--oracles", type=int, default=2, choices=(1, 2))
    parser.add_argument("--triton-runs", type=int, default=TRITON_RUNS, help="0: no Triton")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=FORMATS)
    parser.add_argument("--sizes", type=pairs, default=SIZES, metavar="NxK,…")
    parser.add_argument("--rows", type=numbers, default=ROWS, metavar="M,…")
    parser.add_argument("--quick", action="store_true", help="a look, of about a minute")
    args = parser.parse_args()
    if args.quick:
        vars(args).update(QUICK)
    if args.mode == "merge":
        merge(args)
    else:
        run(args)


if __name__ == "__main__":
    main()
