"""The commands of the page, run in a store of their own on a shortened configuration."""

from __future__ import annotations

import re
from pathlib import Path

import first_party

from xpu.cli.probe_report import print_report
from xpu.model import ChoiceResult, MemberResult
from xpu.probes import ProbeOutcome


def test_every_command_succeeds_and_says_something(
    page, shell, capsys, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)  # one of them writes there
    lines = [
        line for block in page("quickstart.md").of("commands") for line in block.text.split("\n")
    ]
    lines = [line for line in lines if line]
    assert len(lines) > 10
    for line in lines:
        assert shell(line) == 0, line
        assert capsys.readouterr().out.strip(), line


def test_a_second_run_answers_from_the_store_and_an_override_does_not_touch_it(
    shell, capsys
) -> None:
    assert shell("xpu probe run matvec_variant") == 0
    assert capsys.readouterr().out.count(" timed ") == 2
    assert shell("XPU_SHAPE_Q4K_MATVEC=two_row xpu probe run matvec_variant") == 0
    assert capsys.readouterr().out.count(" override ") == 2
    assert shell("xpu probe run matvec_variant") == 0
    assert capsys.readouterr().out.count(" stored ") == 2
    assert shell("XPU_SHAPE_Q4K_MATVEC=tow_row xpu probe run matvec_variant") == 1


def test_the_table_of_the_page_is_the_one_printed(page, capsys) -> None:
    members = (
        MemberResult("plain", median_ns=9665.0),
        MemberResult("fine", "left", median_ns=1e4),
        MemberResult("big", "pruned", rule="R3", need=2, limit=1),
        MemberResult("last", "capped"),
    )
    result = ChoiceResult(
        "q4k_matvec", "1x1024x1024", "plain", "timed", margin_permille=110, members=members
    )
    print_report("device", [ProbeOutcome("matvec_variant", result)], {}, 1.0)
    printed = cells_of(capsys.readouterr().out)[1:]
    [block] = page("quickstart.md").of("table")
    shown = cells_of(block.text)
    assert shown[0] == printed[0]
    assert shown[1] == [column for column in printed[1] if column in shown[1]]
    assert len(shown[3]) == len(shown[4]) == len(shown[1])
    table = page("quickstart.md").text.split("| column | meaning |")[1].split("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, flags=re.MULTILINE) == printed[1]


def cells_of(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines() if line.strip()]


def test_every_variable_of_the_table_is_read_somewhere(page, root: Path) -> None:
    first_party.plugin("cpu")
    table = page("quickstart.md").text.split("| variable | meaning |")[1].split("\n\n")[0]
    names = [
        name.partition("<")[0] for name in re.findall(r"^\| `(\w+[^`]*)`", table, re.MULTILINE)
    ]
    assert len(names) == 11
    sources = "".join(
        path.read_text("utf-8")
        for room in ("xpu", "plugins/backends")
        for path in (root / room).rglob("*.py")
        if "tests" not in path.parts
    )
    # "CC" is too short to be looked for bare.
    for name in names:
        assert re.search(rf"[\"'{{]{name}[\"'{{]", sources) or f'f"{name}' in sources, name


def test_exit_codes(shell, capsys) -> None:
    assert shell("xpu explian q4k_tile 8x64x256") == 2
    assert shell("xpu explain q4k_tile 8x64") == 2
    assert shell("xpu store show shape.nothing.1") == 1
    assert shell("xpu completion bash") == 0
    assert "_XPU_COMPLETE" in capsys.readouterr().out
