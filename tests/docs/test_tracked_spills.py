"""The script that writes which shipped kernels spill: what it changes, and what it leaves."""

from __future__ import annotations

import importlib.util
import tomllib
import types
from pathlib import Path

import pytest

from xpu.settings import load_settings

TEXT = """# What is here stays.
[families.a]
design  = "d"
problem = ["n"]

[[families.a.members]]
name = "x"

[[families.a.members]]
name = "y"

[families.like_a]
like = "a"

[families.other_a]
like = "a"
wave = 32

[families.b]
design = "d"
"""
CC, LD = ("far", "t1", "cc 1"), ("far", "t2", "cc 1")


@pytest.fixture(scope="module")
def script(root: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("tracked_spills", root / "docs/tracked_spills.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_families_state_their_spills_where_they_are_not_anothers(script) -> None:
    spills = {
        "a": {CC: {"x", "y"}, LD: {"y", "x"}, ("near", "t", "ld 2"): {"y"}},
        "like_a": {CC: {"x", "y"}, LD: {"y", "x"}, ("near", "t", "ld 2"): {"y"}},
    }
    text = script.rewritten(TEXT, spills)
    families = tomllib.loads(text)["families"]
    common = {"item": script.ITEM, "gate": "spill"}
    assert families["a"]["unlowered"] == [
        {
            **common,
            "backend": "far",
            "compilers": ["cc 1"],
            "targets": ["t1", "t2"],
            "members": ["x", "y"],
        },
        {**common, "backend": "near", "compilers": ["ld 2"], "targets": ["t"], "members": ["y"]},
    ]
    assert "unlowered" not in families["like_a"]
    assert families["other_a"] == {"like": "a", "wave": 32, "unlowered": []}
    assert "unlowered" not in families["b"]
    assert text.startswith("# What is here stays.\n")
    assert script.rewritten(text, spills) == text
    assert script.rewritten(text, {}) == TEXT
    again = script.stated(families)
    assert {name: again.get(name) for name in ("a", "like_a")} == spills
    assert "other_a" not in again


def test_what_was_not_looked_at_stays(script) -> None:
    other = ("far", "t1", "cc 2")
    before = {"a": {CC: {"x"}, LD: {"y"}, other: {"z"}}, "b": {CC: {"x"}}}
    now = {"a": {CC: {"y"}}, "c": {CC: {"q"}}}
    assert script.together(before, now, {("t1", "cc 1")}) == {
        "a": {CC: {"y"}, LD: {"y"}, other: {"z"}},
        "b": {},
        "c": {CC: {"q"}},
    }


def test_the_shipped_configuration_is_as_the_script_writes_it(script) -> None:
    text = script.CONFIG.read_text("utf-8")
    families = tomllib.loads(text)["families"]
    assert script.rewritten(text, script.stated(families)) == text
    assert load_settings().rules
