from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from xpu.choice import MemberFault, ShapeChoice
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, DeviceFacts
from xpu.store import Autotune

NAMES = ("a", "b", "c")
NAME = "shape.q4k_tile.512x4096x4096"


def times(*values: float) -> dict[str, float]:
    return dict(zip(NAMES, values, strict=False))


def again(store: Autotune, filtered: Any) -> Autotune:
    """The same directory as another process would see it."""
    return Autotune(store.directory, filtered("a").facts)


@pytest.mark.parametrize("when", ["before", "during", "after", "always"])
def test_an_answer_under_foreign_load_is_served_and_not_kept(
    store: Autotune, fake_probe: Any, filtered: Any, when: str
) -> None:
    probe = fake_probe(times(100, 98, 200))
    log = probe.log

    def load() -> float | None:
        is_now = {
            "before": not log,
            "during": 0 < len(log) < 20,
            "after": len(log) >= 2 * 14,
            "always": True,
        }[when]
        return 0.87 if is_now else None

    choice = ShapeChoice(store=store, foreign_load=load)
    for _ in range(2):
        log.clear()
        result = choice.choose(filtered(*NAMES), probe)
        assert (result.member, result.source, result.timed) == ("b", "timed", True)
        assert not result.stored
        assert (result.margin_permille, result.tie) == (20, True)
        assert "87 % of the device was held by others while timing" in result.note
        assert result.foreign_load == 0.87
        assert log
    assert store.recall(NAME, "any") is None
    assert store.dropped(NAME) is None
    log.clear()
    quiet = ShapeChoice(store=store, foreign_load=lambda: 0.0).choose(filtered(*NAMES), probe)
    assert (quiet.source, quiet.stored, quiet.note) == ("timed", True, "")


@pytest.mark.parametrize(("load", "stored"), [(0.2499, True), (0.25, False), (1.7, False)])
def test_a_quarter_is_where_contention_begins(
    store: Autotune, fake_probe: Any, filtered: Any, load: float, stored: bool
) -> None:
    choice = ShapeChoice(store=store, foreign_load=lambda: load)
    result = choice.choose(filtered(*NAMES), fake_probe(times(3, 2, 1)))
    assert result.stored is stored
    assert ("% of the device" in result.note) is not stored


def test_a_load_that_cannot_be_had_fails_no_trial(
    store: Autotune, fake_probe: Any, filtered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> float:
        raise OSError("no such counter")

    for load in (broken, lambda: None, lambda: float("nan")):
        store.forget(NAME)
        choice = ShapeChoice(store=store, foreign_load=load)
        result = choice.choose(filtered(*NAMES), fake_probe(times(3, 2, 1)))
        assert result.stored
        assert result.foreign_load is None
    assert "no such counter" in caplog.text


def test_a_stored_value_that_names_no_survivor_is_a_miss_with_one_warning(
    store: Autotune, fake_probe: Any, filtered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ShapeChoice(store=store).choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    path = store.path_of(NAME)
    assert path is not None
    path.write_text(path.read_text().replace("b\n", "zebra\n", 1))
    choice = ShapeChoice(store=again(store, filtered))
    caplog.clear()
    for _ in range(3):
        result = choice.choose(filtered(*NAMES), fake_probe({}), may_time=False)
        assert (result.member, result.source) == ("a", "default")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "'zebra'" in caplog.text
    result = choice.choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    assert (result.member, result.stored) == ("b", True)
    assert choice.choose(filtered(*NAMES), fake_probe({})).source == "stored"


@pytest.mark.parametrize("margin", ["", "-5", "many", "²", "1.5"])
def test_notes_that_somebody_wrote_over_do_no_harm(
    store: Autotune, fake_probe: Any, filtered: Any, margin: str
) -> None:
    ShapeChoice(store=store).choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    path = store.path_of(NAME)
    assert path is not None
    path.write_text(path.read_text().replace("margin 67", f"margin {margin}"), "utf-8")
    kept = again(store, filtered)
    result = ShapeChoice(store=kept).choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    assert result.member == "b"
    assert result.margin_permille in (None, 67)


def test_faulty_members_are_values_and_all_faulty_is_an_error(
    store: Autotune, checking_probe: Any, filtered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def at(name: str, count: int, time: float) -> float:
        if name == "b":
            raise RuntimeError("launch failed")
        return time

    probe = checking_probe(times(10, 20, 30), {"a": False}, at=at)
    choice = ShapeChoice(store=store)
    result = choice.choose(filtered(*NAMES, pruned=("d",)), probe)
    assert (result.member, result.source) == ("c", "timed")
    assert [(each.name, each.status) for each in result.members] == [
        ("a", "wrong"),
        ("b", "failed"),
        ("c", "survivor"),
        ("d", "pruned"),
    ]
    assert "launch failed" in result.members[1].note
    assert "launch failed" in caplog.text
    store.forget(NAME)
    broken = checking_probe(times(10, 20, 0), {"a": False}, at=at)
    with pytest.raises(XpuLaunchException) as caught:
        choice.choose(filtered(*NAMES), broken)
    for words in ("a: wrong", "b: failed (RuntimeError: launch failed)", "c: failed"):
        assert words in str(caught.value)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        found = [(each.name, each.status) for each in error.members]
        assert found == [("a", "wrong"), ("b", "failed"), ("c", "failed")]


def test_a_reason_that_members_share_is_said_once(
    checking_probe: Any, filtered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    why = "plugin 'acme' of acme-xpu: backend 'acme': AcmeDevice.launcher() raised AttributeError"
    faults = dict.fromkeys("ac", MemberFault("failed", why)) | {"b": False}
    with pytest.raises(XpuLaunchException) as caught:
        ShapeChoice().choose(filtered(*NAMES), checking_probe(times(10, 20, 30), faults))
    for said in (str(caught.value), caplog.text):
        assert f"a, c: failed ({why})" in said
        assert said.count(why) == 1
        assert "b: wrong (" in said


def test_what_was_finished_is_kept_when_a_trial_is_interrupted(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    def at(name: str, count: int, time: float) -> float:
        if count == 3:
            raise KeyboardInterrupt
        return time

    choice = ShapeChoice(store=store)
    choice.choose(filtered(*NAMES, name="finished"), fake_probe(times(3, 2, 1)))
    with pytest.raises(KeyboardInterrupt):
        choice.choose(filtered(*NAMES), fake_probe(times(300, 280, 307), at=at))
    kept = ShapeChoice(store=again(store, filtered))
    assert kept.choose(filtered(*NAMES, name="finished"), None).source == "stored"
    # Neither the turn nor the right to time is still held.
    assert choice.choose(filtered(*NAMES), fake_probe(times(300, 280, 307))).source == "timed"


def test_who_waits_for_a_turn_finds_the_answer_or_serves_the_default(
    store: Autotune, fake_probe: Any, filtered: Any
) -> None:
    heard: list[ChoiceResult] = []
    with store.tuning_turn(NAME, 0):
        busy = ShapeChoice(store=again(store, filtered), turn_wait_s=0.0, on_default=heard.append)
        result = busy.choose(filtered(*NAMES), fake_probe({}))
    assert (result.member, result.source, heard) == ("a", "default", [result])
    assert result.is_stand_in
    assert "another process" in result.note

    other = again(store, filtered)

    class Behind(Autotune):
        @contextmanager
        def tuning_turn(self, name: str, wait_s: float) -> Iterator[bool]:
            ShapeChoice(store=other).choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
            yield True

    late = Behind(store.directory, filtered("a").facts)
    result = ShapeChoice(store=late).choose(filtered(*NAMES), fake_probe({}))
    assert (result.member, result.source) == ("b", "stored")


def test_trials_of_several_threads_never_overlap(fake_probe: Any, filtered: Any) -> None:
    choice = ShapeChoice()
    inside: set[str] = set()
    overlaps: list[set[str]] = []

    def work(family: str) -> None:
        def at(name: str, count: int, reading: float) -> float:
            inside.add(family)
            if len(inside) > 1:
                overlaps.append(set(inside))
            time.sleep(1e-4)  # long enough for another thread to come between
            if count == 13:
                inside.discard(family)
            return reading

        f = filtered("a", "b", name=family)
        results.append(choice.choose(f, fake_probe(times(102, 100), at=at)))

    results: list[ChoiceResult] = []
    threads = [threading.Thread(target=work, args=(f"f{place}",)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.member for each in results] == ["b"] * 6
    assert overlaps == []


def test_a_device_without_geometry_is_remembered_in_memory(
    tmp_path: Path, fake_probe: Any, filtered: Any
) -> None:
    f = filtered(*NAMES, facts=DeviceFacts())
    choice = ShapeChoice(store=Autotune(tmp_path / "store", DeviceFacts()))
    assert not choice.choose(f, fake_probe(times(3, 2, 1))).stored
    assert choice.choose(f, fake_probe({})).source == "stored"


def test_a_store_that_cannot_be_written_still_serves(
    tmp_path: Path, fake_probe: Any, filtered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    choice = ShapeChoice(store=Autotune(tmp_path / "file", filtered("a").facts))
    caplog.set_level(logging.WARNING)
    result = choice.choose(filtered(*NAMES), fake_probe(times(300, 280, 307)))
    assert (result.member, result.source, result.stored) == ("b", "timed", False)
    assert choice.choose(filtered(*NAMES), fake_probe({})).member == "b"
