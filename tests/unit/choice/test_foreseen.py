"""What a choice would answer: the same as it does, with nothing asked and nothing dropped."""

from __future__ import annotations

from typing import Any

import pytest

from xpu.choice import ShapeChoice, foreseen
from xpu.model import MemberResult
from xpu.store import Autotune

TIMES = {"a": 300, "b": 280, "c": 307}
IDENTITY = {"threads": "8"}


def told(f: Any, store: Autotune | None, memory: str = "warm") -> Any:
    return foreseen(f, store, identity=IDENTITY, memory=memory)


def test_a_stored_answer_is_foreseen_and_no_other(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    f = filtered(*TIMES)
    assert told(f, store) is None
    choice = ShapeChoice(store=store)
    choice.choose(f, fake_probe(TIMES), identity=IDENTITY)
    found = told(f, Autotune(store.directory, f.facts))
    assert (found.member, found.source, found.stored) == ("b", "stored", True)
    assert told(f, None) is None
    assert told(f, store, "cold") is None
    assert foreseen(f, store, identity={"threads": "9"}, memory="warm") is None


def test_an_answer_of_another_build_stays_where_it_is(
    store: Autotune, fake_probe: Any, filtered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    before = filtered(*TIMES)
    ShapeChoice(store=store).choose(before, fake_probe(TIMES), identity=IDENTITY)
    files = sorted(store.directory.rglob("*"))
    assert told(filtered(*TIMES, hashes={"a": "edited"}), store) is None
    assert sorted(store.directory.rglob("*")) == files
    assert caplog.records == []
    assert told(before, store).source == "stored"


def test_one_that_stands_aside_or_is_unknown_is_no_answer(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    ShapeChoice(store=store).choose(filtered(*TIMES), fake_probe(TIMES), identity=IDENTITY)
    aside = (MemberResult("b", "crashed", code_hash="hash of b"),)
    assert told(filtered("a", "c", aside=aside), store) is None


def test_what_needs_no_trial_says_so(store: Autotune, filtered: Any) -> None:
    only = told(filtered("a", pruned=("b",)), store)
    assert (only.member, only.source) == ("a", "only")
    refused = told(filtered(pruned=("a", "b")), store)
    assert (refused.member, refused.source) == ("", "refused")
    assert "R9" in refused.note
