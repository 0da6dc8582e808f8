from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest

from xpu.choice import ShapeChoice
from xpu.choice.rests_on import store_name
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, KernelFacts, MemberResult, ShapeCandidate
from xpu.store import Autotune

NAMES = ("a", "b", "c")
NAME = "shape.q4k_tile.512x4096x4096"


def times(*values: float) -> dict[str, float]:
    return dict(zip(NAMES, values, strict=False))


def again(store: Autotune, filtered: Any) -> Autotune:
    """The same directory as another process would see it."""
    return Autotune(store.directory, filtered("a").facts)


def test_the_second_call_is_stored_and_times_nothing(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    probe = fake_probe(times(300, 280, 307))
    first = ShapeChoice(store=store).choose(filtered(*NAMES), probe)
    assert (first.member, first.source, first.timed, first.stored) == ("b", "timed", True, True)
    assert (first.margin_permille, first.tie, first.note) == (67, False, "")
    assert (first.family, first.problem) == ("q4k_tile", "512x4096x4096")
    assert [member.median_ns for member in first.members] == [300, 280, 307]
    assert first.check_s is not None
    assert first.trial_s is not None
    assert min(first.check_s, first.trial_s) >= 0
    for kept in (store, again(store, filtered)):
        probe.log.clear()
        second = ShapeChoice(store=kept).choose(filtered(*NAMES), probe)
        assert probe.log == []
        assert (second.member, second.source) == ("b", "stored")
        assert (second.timed, second.stored) == (False, True)
        assert (second.check_s, second.trial_s) == (None, None)
        assert (second.margin_permille, second.tie) == (67, False)
        assert [member.name for member in second.members] == list(NAMES)
        assert {member.rounds for member in second.members} == {0}


def test_an_answer_that_knows_not_of_a_mended_member_is_passed_over_where_timing_is_allowed(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    probe = fake_probe(times(300, 280, 307))
    choice = ShapeChoice(store=store)

    def source(probe: Any = probe, **how: Any) -> str:
        return choice.choose(filtered(*NAMES), probe, **how).source

    assert source() == "timed"
    assert source(afresh=True, may_time=False) == "stored"
    assert source(None, afresh=True) == "stored"
    with choice.hold():
        assert source(afresh=True) == "stored"
    probe.times["a"] = 100
    assert (source(afresh=True), source()) == ("timed", "stored")
    assert choice.choose(filtered(*NAMES), probe).member == "a"


def test_margin_and_tie_are_kept_on_recall(store: Autotune, fake_probe: Any, filtered: Any) -> None:
    for values, margin, tie in (((100, 98, 200), 20, True), ((100, 80, 200), 200, False)):
        f = filtered(*NAMES, hashes={"a": str(values)})
        for source, choice in (("timed", store), ("stored", again(store, filtered))):
            result = ShapeChoice(store=choice).choose(f, fake_probe(times(*values)))
            assert (result.member, result.source) == ("b", source)
            assert (result.margin_permille, result.tie) == (margin, tie)
        assert [m.status for m in result.members] == ["survivor"] * 3


def test_without_a_store_every_choice_times(fake_probe: Any, filtered: Any) -> None:
    choice = ShapeChoice()
    probe = fake_probe(times(300, 280, 307))
    for _ in range(2):
        probe.log.clear()
        result = choice.choose(filtered(*NAMES), probe)
        assert (result.member, result.source, result.stored) == ("b", "timed", False)
        assert len(probe.log) == 3 * 14


@pytest.mark.parametrize("where", ["survivor", "kernel facts"])
def test_a_changed_code_hash_times_again_and_names_the_dropped_answer(
    store: Autotune,
    fake_probe: Any,
    filtered: Any,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    heard: list[tuple[str, ...]] = []
    choice = ShapeChoice(store=store, on_dropped=lambda *what: heard.append(what))
    choice.choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    if where == "kernel facts":
        f = filtered(*NAMES, hashes={"c": "other"})
    else:
        f = filtered("a", "b")
        f.consider(ShapeCandidate("c", code_hash="other", threads=64), KernelFacts())
    assert heard == []
    result = choice.choose(f, fake_probe(times(200, 280, 307)))
    assert (result.member, result.source, result.stored) == ("a", "timed", True)
    assert "'b'" in result.note
    assert "dropped" in result.note
    assert "(changed: code.c)" in result.note
    assert any("'b'" in record.getMessage() for record in caplog.records if record.name == "xpu")
    assert [what[:3] for what in heard] == [("q4k_tile", "512x4096x4096", "b")]
    after = choice.choose(f, fake_probe({}))
    assert (after.source, after.note) == ("stored", "")
    assert len(heard) == 1


def test_what_has_changed_since_an_answer_is_named(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    def note(f: Any, **identity: str) -> str:
        choice = ShapeChoice(store=store)
        return choice.choose(f, fake_probe(times(300, 280, 290)), identity=identity).note

    old = filtered("a", "b").facts
    new = attrs.evolve(old, driver_version="another")
    note(filtered("a", "b"), threads="2")
    assert "(changed: identity.threads, identity.power)" in note(filtered("a", "b"), power="low")
    assert "(changed: driver_version, identity.power, code.b, code.c)" in note(
        filtered("a", "c", facts=new)
    )
    hashes = {"a": "1", "c": "2"}
    said = note(filtered("a", "c", facts=old, hashes=hashes), memory="x", power="y")
    assert "(changed: driver_version, code.a, code.c, identity.memory, …)" in said
    # One that an earlier version kept does not say.
    entry = store.recall(store_name(filtered("a", "c"), "warm"), "")
    assert entry is None
    store.remember(store_name(filtered("a", "c"), "warm"), "a", "an old build")
    assert "rested on another build and was dropped" in note(filtered("a", "c"))


def test_everything_that_an_answer_rests_on_is_in_its_build(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    facts = filtered("a").facts

    def source(f: Any, **more: Any) -> str:
        return ShapeChoice(store=store).choose(f, fake_probe(times(300, 280)), **more).source

    plain = filtered("a", "b")
    library = filtered("a")
    library.consider(ShapeCandidate("b", library="blas 1.2"))
    newer_library = filtered("a")
    newer_library.consider(ShapeCandidate("b", library="blas 1.3"))
    other_staging = filtered("a")
    other_staging.consider(ShapeCandidate("b", library="blas 1.2", code_hash="33"))
    shape = filtered("a")
    shape.consider(ShapeCandidate("b", threads=32))
    other_shape = filtered("a")
    other_shape.consider(ShapeCandidate("b", threads=64))
    variants: list[tuple[Any, dict[str, Any]]] = [
        (filtered("a", "b", facts=attrs.evolve(facts, driver_version="8")), {}),
        (plain, {"identity": {"threads": "2"}}),
        (plain, {"identity": {"threads": "4"}}),
        (library, {}),
        (shape, {}),
    ]
    assert source(plain) == "timed"
    for f, more in variants:
        assert source(f, **more) == "timed"
        assert source(f, **more) == "stored"
        assert source(plain) == "timed"
    # Another memory mode is an answer of its own, and drops none.
    assert [source(plain, memory="cold") for _ in range(2)] == ["timed", "stored"]
    assert source(plain) == "stored"
    pairs = ((library, newer_library), (library, other_staging), (shape, other_shape))
    for one, other in pairs:
        assert [source(f) for f in (one, other, other)] == ["timed", "timed", "stored"]


def test_memory_mode_stands_in_the_result(fake_probe: Any, filtered: Any) -> None:
    choice = ShapeChoice()
    assert choice.choose(filtered("a", "b"), fake_probe(times(1, 2))).memory == "warm"
    cold = choice.choose(filtered("a", "b"), fake_probe(times(1, 2)), memory="cold")
    assert cold.memory == "cold"


def test_an_override_is_served_untimed_until_cleared(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    choice, probe = ShapeChoice(store=store), fake_probe(times(300, 280, 307))
    choice.override("q4k_tile", "c")
    assert choice.overridden("q4k_tile") == "c"
    result = choice.choose(filtered(*NAMES), probe)
    assert (result.member, result.source, result.timed) == ("c", "override", False)
    assert probe.log == []
    assert choice.choose(filtered("a", "b", name="other"), probe).source == "timed"
    choice.clear_override("q4k_tile")
    choice.clear_override("q4k_tile")
    assert choice.choose(filtered(*NAMES), probe).member == "b"
    choice.override("q4k_tile", "a")
    assert choice.choose(filtered(*NAMES), probe).member == "a"


def test_an_override_that_cannot_serve_is_refused(fake_probe: Any, filtered: Any) -> None:
    choice = ShapeChoice()
    f = filtered("t64", "t32", pruned=("t128",), aside=(MemberResult("t8", "capped"),))
    for member, words in (
        ("t128", ("t128", "R9", "4096", "1000", "t64")),
        ("t46", ("'t46'", "'t64'", "t32")),
        ("t8", ("t8", "capped")),
    ):
        choice.override("q4k_tile", member)
        with pytest.raises(XpuLaunchException) as caught:
            choice.choose(f, fake_probe({}))
        assert all(word in str(caught.value) for word in words)


def test_no_survivor_raises_and_names_all(fake_probe: Any, filtered: Any) -> None:
    choice = ShapeChoice()
    choice.override("q4k_tile", "a")
    with pytest.raises(XpuLaunchException) as caught:
        choice.choose(filtered(pruned=NAMES), fake_probe({}))
    assert all(f"{name}: R9" in str(caught.value) for name in NAMES)


def test_one_survivor_is_neither_timed_nor_checked(checking_probe: Any, filtered: Any) -> None:
    probe = checking_probe({}, {"a": False})
    aside = (MemberResult("d", "failed", note="it did not compile"),)
    result = ShapeChoice().choose(filtered("a", pruned=("b",), aside=aside), probe)
    assert (result.member, result.source, result.timed, result.stored) == (
        "a",
        "only",
        False,
        False,
    )
    assert (result.margin_permille, result.tie) == (None, None)
    assert (probe.log, probe.checked) == ([], [])
    assert [(each.name, each.status) for each in result.members] == [
        ("a", "survivor"),
        ("b", "pruned"),
        ("d", "failed"),
    ]
    assert (result.members[1].rule, result.members[1].need, result.members[1].limit) == (
        "R9",
        4096,
        1000,
    )


@pytest.mark.parametrize(
    ("default", "served"), [("b", "b"), (None, "a"), ("pruned", "a"), ("stranger", "a")]
)
def test_the_default_serves_untimed_under_hold_and_where_timing_is_not_allowed(
    store: Autotune, fake_probe: Any, filtered: Any, default: str | None, served: str
) -> None:
    heard: list[ChoiceResult] = []
    choice, probe = ShapeChoice(store=store, on_default=heard.append), fake_probe(times(3, 2, 1))
    f = filtered(*NAMES, pruned=("pruned",), default=default)
    with choice.hold(), choice.hold():
        results = [choice.choose(f, probe)]
    results += [choice.choose(f, probe, may_time=False), choice.choose(f, None)]
    assert {(each.member, each.source) for each in results} == {(served, "default")}
    assert not any(each.timed or each.stored for each in results)
    assert (probe.log, heard) == ([], results)
    assert choice.choose(f, probe).source == "timed"
    assert len(heard) == 3


def test_hold_still_serves_overrides_and_stored_answers(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    choice = ShapeChoice(store=store)
    choice.choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    with choice.hold():
        assert choice.choose(filtered(*NAMES), fake_probe({})).source == "stored"
        choice.override("q4k_tile", "c")
        assert choice.choose(filtered(*NAMES), fake_probe({})).member == "c"


def test_hold_reaches_other_threads_and_ends_with_its_last_holder(
    fake_probe: Any, filtered: Any
) -> None:
    choice = ShapeChoice()
    sources: list[str] = []

    def ask() -> None:
        sources.append(choice.choose(filtered("a", "b"), fake_probe(times(1, 2))).source)

    def in_thread() -> None:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    def fail_inside() -> None:
        with choice.hold():
            in_thread()
            raise ValueError("inside")

    with choice.hold():
        with pytest.raises(ValueError, match="inside"):
            fail_inside()
        in_thread()
    in_thread()
    assert sources == ["default", "default", "timed"]


def test_a_tuned_answer_is_the_default_unless_that_is_proven_behind(
    fake_probe: Any, filtered: Any
) -> None:
    choice = ShapeChoice()
    for values, member in (
        ((100.1, 100, 100.2), "c"),
        ((100, 101, 103), "a"),
        ((101, 99, 99), "c"),
    ):
        f = filtered(*NAMES, default="c")
        assert choice.choose(f, fake_probe(times(*values))).member == member


def test_the_budget_is_said_where_it_ended_the_trial(fake_probe: Any, filtered: Any) -> None:
    probe = fake_probe(times(105, 100, 104))
    result = ShapeChoice(budget_s=0.0).choose(filtered(*NAMES), probe)
    assert (result.member, result.margin_permille) == ("a", 0)
    assert "ended the trial after 5 rounds" in result.note
    assert len(probe.log) == 15
