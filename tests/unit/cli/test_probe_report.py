"""What a person reads after a run: one sentence about contention, and figures left whole."""

from __future__ import annotations

import random
import re

import pytest

from xpu.choice.foreign_load import load_note
from xpu.cli.probe_report import print_report
from xpu.model import ChoiceResult, MemberResult
from xpu.probes import ProbeOutcome


def _outcome(problem: str, load: float | None = 0.0, note: str = "", **more) -> ProbeOutcome:
    notes = "; ".join(filter(None, (note, load_note(load))))
    result = ChoiceResult(
        "family", problem, "plain", "timed", note=notes, foreign_load=load, **more
    )
    return ProbeOutcome("probe", result)


def test_contention_is_one_sentence_and_other_notes_stay(capsys) -> None:
    loads = [0.331, 0.0, 0.83, 0.5, None]
    outcomes = [_outcome(str(at), load) for at, load in enumerate(loads)]
    print_report("device", [*outcomes, _outcome("9", 0.4, "it was dropped")], {}, 1.0)
    out = capsys.readouterr().out
    assert (
        "4 of 6 answers were not kept: others held 33 to 83 % of the device while timing; "
        "run again when it is quiet\n" in out
    )
    assert out.count("others") == 1
    assert "family 9: it was dropped\n" in out


def test_contention_of_one_answer(capsys) -> None:
    print_report("device", [_outcome("1", 0.83), _outcome("2")], {}, 1.0)
    assert "1 of 2 answers was not kept: others held 83 % of" in capsys.readouterr().out


def test_a_quiet_run_says_nothing_of_it(capsys) -> None:
    print_report("device", [_outcome("1"), _outcome("2", None)], {}, 1.0)
    assert "kept" not in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_narrow_terminal_breaks_no_figure(width, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    names = ["plain", "two_row", "four_row", "split"]
    times = [random.uniform(1e4, 9e5) for _ in names]
    members = tuple(
        MemberResult(name, median_ns=time) for name, time in zip(names, times, strict=True)
    )
    print_report("device", [_outcome("1x4096x4096", members=members)] * 2, {}, 1.0)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(len(line) for line in shown.splitlines()) <= width
    for name, time in zip(names, times, strict=True):
        assert f"{name} {time / 1e3:.4g} µs" in shown
    lines = [line.strip() for line in shown.splitlines()]
    rows = [at for at, line in enumerate(lines) if line.startswith("1x4096x4096 ")]
    assert len(rows) == 2
    if width == 80:
        assert [lines[at + 1].split()[:2] for at in rows] == [["survivors:", "plain"]] * 2
