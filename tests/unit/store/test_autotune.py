import logging
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts
from xpu.store import Autotune, Entry
from xpu.store.disk import TEMPORARY

FACTS = DeviceFacts(backend="any", multiprocessors=128, uuid="part-1")
NAME = "shape.q4k_tile.512x4096x4096"
BUILD = "0123456789abcdef01234567"


def fresh(directory, facts=FACTS):
    """A store as the next process would see it."""
    return Autotune(directory, facts)


def files(directory):
    return sorted(path for path in Path(directory).rglob("*") if path.is_file())


def test_an_answer_is_recalled_here_and_by_the_next_process(tmp_path):
    store = fresh(tmp_path)
    assert store.recall(NAME, BUILD) is None
    assert store.remember(NAME, "t64x64", BUILD, margin_permille=20, tie=True, note=None)
    expected = Entry("t64x64", BUILD, {"margin_permille": "20", "tie": "True"})
    assert store.recall(NAME, BUILD) == expected
    assert fresh(tmp_path).recall(NAME, BUILD) == expected
    assert files(tmp_path) == [store.path_of(NAME)]
    assert store.path_of(NAME).relative_to(tmp_path).parts == (store.device_key, store.part, NAME)


def test_a_peek_sees_what_a_recall_would_and_drops_nothing(tmp_path):
    store = fresh(tmp_path)
    assert store.peek(NAME, BUILD) is None
    store.remember(NAME, "t64x64", BUILD)
    for seen in (store, fresh(tmp_path)):
        assert seen.peek(NAME, BUILD) == Entry("t64x64", BUILD)
        assert seen.peek(NAME, "another build") is None
        assert seen.dropped(NAME) is None
    assert fresh(tmp_path).recall(NAME, BUILD) == Entry("t64x64", BUILD)
    store.path_of(NAME).write_text("no answer")
    assert fresh(tmp_path).peek(NAME, BUILD) is None
    assert Autotune(tmp_path, DeviceFacts()).peek(NAME, BUILD) is None


def test_the_last_answer_stays(tmp_path):
    store = fresh(tmp_path)
    store.remember(NAME, "old", BUILD, tie=True)
    store.remember(NAME, "new", BUILD)
    for seen in (store, fresh(tmp_path)):
        assert seen.recall(NAME, BUILD) == Entry("new", BUILD)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.text(st.characters(), max_size=30) | st.text(alphabet="./% x", max_size=400),
        st.text(st.characters(), max_size=30),
        min_size=1,
        max_size=5,
    )
)
def test_any_names_and_values_come_back(tmp_path_factory, answers):
    directory = tmp_path_factory.mktemp("store")
    store = fresh(directory)
    for name, value in answers.items():
        assert store.remember(name, value, BUILD, why=value)
    after = fresh(directory)
    for name, value in answers.items():
        assert after.recall(name, BUILD) == Entry(value, BUILD, {"why": value})
    assert {entry.name for entry in after.entries()} == set(answers)
    assert all(path.parent == store.path_of("x").parent for path in files(directory))


def test_an_answer_of_another_build_is_dropped_and_told(tmp_path):
    fresh(tmp_path).remember(NAME, "t64x64", "old build", margin_permille=40)
    fresh(tmp_path).remember("other", "t8", BUILD)
    store = fresh(tmp_path)
    assert store.dropped(NAME) is None
    assert store.recall(NAME, BUILD) is None
    assert store.dropped(NAME) == Entry("t64x64", "old build", {"margin_permille": "40"})
    assert files(tmp_path) == [store.path_of("other")]
    assert store.recall(NAME, "old build") is None
    assert store.dropped("other") is None
    assert store.recall("other", BUILD) == Entry("t8", BUILD)


def test_an_answer_in_memory_of_another_build_is_dropped_too(tmp_path):
    store = fresh(tmp_path)
    store.remember(NAME, "t64x64", "old build")
    assert store.recall(NAME, BUILD) is None
    assert store.dropped(NAME).value == "t64x64"
    assert files(tmp_path) == []
    store.remember(NAME, "t8", BUILD)
    assert store.dropped(NAME) is None
    assert store.recall(NAME, BUILD).value == "t8"
    assert store.recall(NAME, "next build") is None
    assert store.dropped(NAME).value == "t8"
    store.forget(NAME)
    assert store.dropped(NAME) is None
    assert store.recall(NAME, BUILD) is None
    assert files(tmp_path) == []


def test_an_answer_that_another_process_wrote_meanwhile_is_found_after_a_miss(tmp_path):
    store = fresh(tmp_path)
    assert store.recall(NAME, BUILD) is None
    fresh(tmp_path).remember(NAME, "t8", BUILD)
    assert store.recall(NAME, BUILD).value == "t8"
    # In memory a stale one: the disk's right one is found, and not deleted.
    fresh(tmp_path).remember(NAME, "t16", "next build")
    assert store.recall(NAME, "next build").value == "t16"
    assert store.dropped(NAME) is None
    assert fresh(tmp_path).recall(NAME, "next build").value == "t16"


def test_a_newer_answer_survives_the_dropping_of_the_one_before(tmp_path, monkeypatch):
    fresh(tmp_path).remember(NAME, "stale", "old build")
    store, other = fresh(tmp_path), fresh(tmp_path)
    replace, is_first = os.replace, [True]

    def late(source, target):
        if is_first.pop() if is_first else False:
            other.remember(NAME, "newer", BUILD)  # between the reading and the deletion
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    assert store.recall(NAME, BUILD) is None
    assert store.dropped(NAME).value == "stale"
    assert store.recall(NAME, BUILD).value == "newer"
    assert files(tmp_path) == [store.path_of(NAME)]


def test_once_loaded_a_recall_touches_no_disk_and_takes_no_lock(tmp_path):
    fresh(tmp_path).remember(NAME, "t8", BUILD)
    store = fresh(tmp_path)
    first = store.recall(NAME, BUILD)
    store.path_of(NAME).unlink()
    with store._lock:  # a recall that took it would wait for ever
        assert store.recall(NAME, BUILD) is first


def test_equal_parts_and_other_devices_do_not_see_each_other(tmp_path):
    devices = [
        FACTS,
        DeviceFacts(backend="any", multiprocessors=128, uuid="part-2"),
        DeviceFacts(backend="any", multiprocessors=128),
        DeviceFacts(backend="any", multiprocessors=64, uuid="part-1"),
        DeviceFacts(backend="some", multiprocessors=128, uuid="part-1"),
    ]
    for number, facts in enumerate(devices):
        assert fresh(tmp_path, facts).remember(NAME, f"t{number}", BUILD)
    for number, facts in enumerate(devices):
        assert fresh(tmp_path, facts).recall(NAME, BUILD).value == f"t{number}"


def test_a_part_without_geometry_is_remembered_in_memory_only(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="xpu"):
        store = fresh(tmp_path / "store", DeviceFacts(backend="any"))
        assert not store.remember(NAME, "t8", BUILD)
        assert store.recall(NAME, BUILD).value == "t8"
        assert store.recall(NAME, "next build") is None
    assert store.dropped(NAME).value == "t8"
    assert store.path_of(NAME) is None
    assert [record.levelno for record in caplog.records] == [logging.INFO]
    assert not (tmp_path / "store").exists()
    with store.tuning_turn(NAME, 0.0) as first, store.tuning_turn(NAME, 0.0) as second:
        assert first
        assert second
    store.forget(NAME)
    assert store.recall(NAME, "next build") is None


def test_the_directory_may_be_text_a_path_or_in_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for given_as, found in [
        (str(tmp_path / "a"), tmp_path / "a"),
        (tmp_path / "b", tmp_path / "b"),
        ("~/c", tmp_path / "home" / "c"),
        (Path("~/d"), tmp_path / "home" / "d"),
    ]:
        store = fresh(given_as)
        assert store.directory == found
        assert store.remember(NAME, "t8", BUILD)
        assert found.is_dir()


def test_a_relative_directory_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = fresh("store")
    monkeypatch.chdir("/")
    store.remember(NAME, "t8", BUILD)
    assert fresh(tmp_path / "store").recall(NAME, BUILD).value == "t8"


@pytest.mark.parametrize("directory", [None, "", 3, b"bytes", "nul\0nul"])
def test_what_is_no_path_is_refused_by_name(directory):
    with pytest.raises(XpuConfigError, match="store=None"):
        Autotune(directory, FACTS)


def test_files_that_killed_writers_left_behind_are_removed_when_old(tmp_path):
    store = fresh(tmp_path)
    store.remember(NAME, "t8", BUILD)
    old, young = (store.path_of(NAME).with_name(TEMPORARY + age) for age in ("old", "young"))
    for path in (old, young):
        path.write_text("half an ans")
    os.utime(old, (1, 1))
    fresh(tmp_path).remember(NAME, "t8", BUILD)
    assert files(tmp_path) == [young, store.path_of(NAME)]
    assert [entry.name for entry in store.entries()] == [NAME]


def test_threads_see_whole_answers_only(tmp_path):
    store = fresh(tmp_path)
    names = [f"{NAME}.{number}" for number in range(4)]
    wrong = []

    def work(number):
        for turn in range(25):
            name, build = names[(turn + number) % 4], f"build {turn % 2}"
            store.remember(name, f"{name} {build}", build)
            entry = store.recall(name, f"build {(turn + number) % 2}")
            if entry is not None and entry.value != f"{name} {entry.build_id}":
                wrong.append(entry)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert not any(path.name.startswith(TEMPORARY) for path in files(tmp_path))
    assert not any(entry.fault for entry in store.entries())
