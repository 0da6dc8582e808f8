"""Tables fold on a terminal and never in a pipe; documents are whole under any locale."""

from __future__ import annotations

import json
import math
import random
import re

import click
import pytest

from xpu.cli.output import cell, json_option, nanoseconds, print_json, print_table, visible

WORDS = [f"member{number} {random.randrange(1, 999)} µs" for number in range(40)]


def test_in_a_pipe_a_row_is_a_line_without_trailing_blanks(capsys) -> None:
    print_table("title", ["name", "items", "empty"], [["a", WORDS, None], ["b" * 900, [], ""]])
    title, blank, head, rule, first, second, *rest = capsys.readouterr().out.split("\n")
    assert (title, blank, set(rest)) == ("title", "", {""})
    assert head.split() == ["name", "items"]
    assert set(rule.strip()) == {"─"}
    assert first.split(maxsplit=1) == ["a", ", ".join(WORDS)]
    assert second.split() == ["b" * 900, "-"]
    assert not any(line.endswith(" ") for line in (head, rule, first, second))


@pytest.mark.parametrize("width", [30, 80, 160])
def test_a_terminal_is_folded_to_and_no_item_is_broken(width, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    print_table("title", ["name", "items"], [["a", WORDS]])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(len(line) for line in shown.splitlines()) <= width
    for word in WORDS:
        assert word in shown


def test_a_table_without_rows_says_so(capsys) -> None:
    print_table("answers", ["name"], [])
    assert capsys.readouterr().out == "answers: none\n"


def test_what_a_terminal_would_act_on_is_escaped(capsys) -> None:
    print_table("t\x1b[31m", ["name"], [["\x1b]0;owned\x07"], ["\u202etxet"], ["\udcff"]])
    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\x07", "\u202e", "\udcff"}
    assert r"\x1b]0;owned\x07" in out
    assert visible("é µ\nplain") == "é µ\nplain"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1234.56, "1,234.6"),
    ],
)
def test_cells(value, text) -> None:
    assert cell(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (12.345, "12.35 ns"),
        (999.9, "999.9 ns"),
        (1000.0, "1 µs"),
        (43_210.0, "43.21 µs"),
        (5e6, "5 ms"),
        (2.5e9, "2.5 s"),
        (1e12, "1000 s"),
    ],
)
def test_times_have_a_unit_that_suits_them(value, text) -> None:
    assert nanoseconds(value) == text


def _command(document: object) -> click.Command:
    @click.command()
    @json_option
    def command(as_json: bool) -> None:
        click.echo("a plugin's chatter")
        if as_json:
            print_json(document)

    return command


def test_a_document_is_ascii_and_has_no_number_that_json_lacks(capsys) -> None:
    document = {"é": [math.nan, math.inf, -math.inf, 1.5, None, True], "deep": {"x": (math.nan,)}}
    _command(document).main(["--json"], standalone_mode=False)
    out, err = capsys.readouterr()
    assert out.isascii()
    assert json.loads(out) == {"é": [None, None, None, 1.5, None, True], "deep": {"x": [None]}}
    assert err == "a plugin's chatter\n"


def test_without_json_what_is_printed_stays_where_it_was(capsys) -> None:
    _command({}).main([], standalone_mode=False)
    assert capsys.readouterr().out == "a plugin's chatter\n"
