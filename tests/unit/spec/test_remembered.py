"""Answers of programs: kept, and asked for again when a file that they rest on has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from xpu.spec import build_cache_directory, remembered


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what remembers, and what counts how often it had to ask."""
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "cache"))
    tool = tmp_path / "tool"
    tool.write_text("release 1")
    asked = []

    def answer() -> tuple[str, list[Path]]:
        asked.append(1)
        return tool.read_text(), [tool]

    return lambda question="which": remembered(question, answer), asked, tool


def test_a_question_is_put_once(ask, tmp_path):
    told, asked, _ = ask
    assert [told(), told(), told("another"), told()] == ["release 1"] * 4
    assert len(asked) == 2
    assert len(list((tmp_path / "cache/tools").iterdir())) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda tool: tool.write_text("release 22"),
        lambda tool: os.utime(tool, ns=(1, 1)),
        lambda tool: (
            tool.with_name("new").write_text("release 1"),
            tool.with_name("new").replace(tool),
        ),
    ],
)
def test_it_is_put_again_when_a_file_has_changed(ask, change):
    told, asked, tool = ask
    told()
    change(tool)
    assert told() == tool.read_text()
    assert len(asked) == 2


def test_a_file_that_comes_or_goes_is_a_change(tmp_path, monkeypatch):
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path))
    first = tmp_path / "first"
    answers = iter("abc")
    asked = [remembered("where", lambda: (next(answers), [first])) for _ in range(2)]
    first.write_text("")
    asked.append(remembered("where", lambda: (next(answers), [first])))
    first.unlink()
    asked.append(remembered("where", lambda: (next(answers), [first])))
    assert asked == ["a", "a", "b", "c"]


@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", '{"question": 1, "files": 3}', "\x00", "[" * 200_000]
)
def test_what_cannot_be_understood_is_asked_again(ask, tmp_path, damage):
    told, asked, _ = ask
    told()
    [kept] = (tmp_path / "cache/tools").iterdir()
    kept.write_text(damage)
    assert (told(), told(), len(asked)) == ("release 1", "release 1", 2)
    assert json.loads(kept.read_text())["answer"] == "release 1"


def test_what_fails_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        remembered("what", lambda: (str(1 // 0), []))
    assert remembered("what", lambda: ("1", [])) == "1"


def test_where_nothing_can_be_written_it_is_asked_each_time(ask, tmp_path):
    told, asked, _ = ask
    (tmp_path / "cache").write_text("a file")
    assert [told(), told()] == ["release 1"] * 2
    assert len(asked) == 2


def test_answers_lie_beside_built_code():
    assert build_cache_directory({"XPU_BUILD_CACHE": "/a/b"}) == Path("/a/b")
