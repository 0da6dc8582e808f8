"""The page of tuning and calibration: its commands run, its tables are whole."""

from __future__ import annotations

import re

import first_party
import pytest

from xpu.cli.tune import tune
from xpu.model import FIGURES
from xpu.spec import CalibrationDesign

PAGE = "tuning.md"


def first_column(text: str, head: str) -> list[str]:
    table = text.split(head)[1].split("\n\n")[0]
    return re.findall(r"^\| (.+?) \|", table, flags=re.MULTILINE)


def test_every_command_of_tuning_succeeds_and_says_something(page, shell, capsys) -> None:
    lines = [line for block in page(PAGE).of("commands") for line in block.text.splitlines()]
    tunings = [line for line in lines if line.startswith("xpu tune")]
    assert len(tunings) == 5
    for line in tunings:
        assert shell(line) == 0, line
        assert capsys.readouterr().out.strip(), line


def test_the_commands_of_calibration_say_what_they_found(
    page, shell, capsys, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_party.plugin("calibration")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # One step beyond the first: whether figures are good is no matter here.
    monkeypatch.setattr("xpu.orchestrator.calibrator.LONG_NS", 1.0)
    monkeypatch.setattr("xpu.orchestrator.calibrator.LAUNCHES_LONG", 0)
    measure, show, bench = page(PAGE).of("commands")[1].text.splitlines()
    assert shell(measure) == 0
    assert "kept in" in capsys.readouterr().out
    assert shell(show) == 0
    assert "op/s" in capsys.readouterr().out
    assert shell(bench) == 0
    out = capsys.readouterr().out
    assert "of peak" in out
    assert "of bandwidth" in out


def test_the_tables_are_whole(page) -> None:
    text = page(PAGE).text
    figures = re.findall(r"`(\w+)`", " ".join(first_column(text, "| figure | what it is |")))
    assert sorted(figures) == sorted(FIGURES)
    told = " ".join(first_column(text, "| option | meaning |"))
    options = {name for one in tune.params for name in one.opts if name.startswith("--")}
    assert set(re.findall(r"--[\w-]+", told)) == options
    members = {name for name in vars(CalibrationDesign) if not name.startswith("_")}
    members |= set(CalibrationDesign.__annotations__)
    named = " ".join(first_column(text, "| attribute or method | meaning |"))
    assert set(re.findall(r"`(\w+)", named)) == members
