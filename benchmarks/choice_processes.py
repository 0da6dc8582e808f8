"""The processes behind ``choice_quality.py``: an oracle's readings, and a fresh tuning.

    python benchmarks/choice_processes.py oracle|tune --backend cuda < questions.json

A question is a family, with m, n and k. Each process gets them as JSON on its standard input and
gives its answers as JSON in the last line of its output. Triton's are in ``triton_gemm.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from members import Bench
from standings import oracle_of
from subjects import problem_of

from xpu import Orchestrator
from xpu.errors import XpuError

MEMORY: Final = "cold"
Question = Mapping[str, Any]
"""``family`` and ``point``: m, n and k."""


def ask(program: str, mode: str, given: Any, arguments: Sequence[str], timeout_s: float) -> Any:
    """Run a process beside this file to its end, and return what it answers.

    Raises
    ------
    RuntimeError
        It failed, or took longer than `timeout_s`; with the last of what it said.
    """
    command = [sys.executable, str(Path(__file__).with_name(program)), mode, *arguments]
    try:
        ended = subprocess.run(  # noqa: S603 - a program beside this one
            command, input=json.dumps(given), capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{program} {mode} took longer than {timeout_s:.0f} s") from None
    if ended.returncode:
        print(ended.stderr, file=sys.stderr)
        said = " ".join(ended.stderr.split("\n")[-2:]).strip()
        raise RuntimeError(f"{program} {mode} ended with {ended.returncode}: {said}")
    return json.loads(ended.stdout.splitlines()[-1])


def consult(bench: Bench, question: Question, seconds: float) -> dict[str, Any]:
    """Return what the oracle says of one question: every survivor, read in turns for long."""
    members = bench.members(question["family"], problem_of(question["point"]), MEMORY)
    members.check()
    times = members.read(seconds)
    return {
        "members": oracle_of(members.names, times),
        "rounds": len(times),
        "faults": members.faults,
    }


def oracle(questions: Sequence[Question], backend: str | None, seconds: float) -> dict[str, Any]:
    """Consult the oracle on every question."""
    with contextlib.closing(Bench(backend)) as bench:
        answers = [consult(bench, question, seconds) for question in questions]
        clock = {"name": bench.trials.timer.tier.name, **bench.trials.timer.tier.describe()}
    return {"answers": answers, "clock": clock}


def choice(orchestrator: Orchestrator, question: Question) -> dict[str, Any]:
    """Choose once, timed."""
    problem = problem_of(question["point"])
    started = time.perf_counter()
    try:
        result = orchestrator.choose(question["family"], problem)
    except XpuError as error:
        return {"winner": None, "seconds": None, "note": str(error)}
    elapsed = time.perf_counter() - started
    read = [one for one in result.members if one.rounds]
    return {
        "winner": result.member,
        "source": result.source,
        "seconds": elapsed - (result.check_s or 0.0),
        "check_s": result.check_s,
        "trial_s": result.trial_s,
        "members": len(read),
        "rounds": max((one.rounds for one in read), default=0),
        "load": result.foreign_load,
        "note": result.note,
    }


def tune(questions: Sequence[Question], backend: str | None) -> dict[str, Any]:
    """Answer every question once, as a program would that has no store."""
    with Orchestrator(store=None, tuning="off", backend=backend, memory=MEMORY) as orchestrator:
        return {"answers": [choice(orchestrator, question) for question in questions]}


def main() -> None:
    """Answer on the standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("oracle", "tune"))
    parser.add_argument("--backend")
    parser.add_argument("--seconds", type=float, default=1.5, help="of readings a question")
    args = parser.parse_args()
    questions = json.load(sys.stdin)
    if args.mode == "oracle":
        answer = oracle(questions, args.backend, args.seconds)
    else:
        answer = tune(questions, args.backend)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
