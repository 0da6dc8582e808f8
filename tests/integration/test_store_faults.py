"""Bad days of a store's disk: never an exception, one word about it, no other answer harmed."""

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

from xpu.model import DeviceFacts
from xpu.store import Autotune, Entry
from xpu.store.disk import MOST_BYTES

FACTS = DeviceFacts(backend="any", multiprocessors=128)
NAME = "shape.q4k_tile.512x4096x4096"
BUILD = "0123456789abcdef01234567"
GOOD = f"t8\n{BUILD}\nmargin_permille 20\nend\n".encode()


def files(directory):
    return sorted(path for path in Path(directory).rglob("*") if path.is_file())


def check_memory_only(store):
    for name in ("a", "b", "c"):
        assert store.recall(name, BUILD) is None
        assert not store.remember(name, f"t-{name}", BUILD, tie=True)
        assert store.recall(name, BUILD) == Entry(f"t-{name}", BUILD, {"tie": "True"})
        assert store.recall(name, "next build") is None
        assert store.dropped(name).value == f"t-{name}"
        store.forget(name)


def check_said_once(store, caplog):
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(store.directory) in caplog.text
    assert "memory only" in caplog.text
    caplog.clear()


@pytest.mark.parametrize(
    "content",
    {
        "empty": b"",
        "truncated": GOOD[:-5],
        "halved": GOOD[: len(GOOD) // 2],
        "doubled": GOOD * 2,
        "binary": os.urandom(300) + b"\xff",
        "zeros": b"\0" * 4096,
        "bad UTF-8": GOOD.replace(b"t8", b"\xc3\x28"),
        "a NUL": GOOD.replace(b"t8", b"t\x008"),
        "another version": b'{"version": 2, "value": "t8"}\n',
        "over-long": GOOD.replace(b"t8", b"t" * MOST_BYTES),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_bad_file_is_a_miss_with_one_warning(tmp_path, caplog, content):
    Autotune(tmp_path, FACTS).remember("other", "t16", BUILD)
    store = Autotune(tmp_path, FACTS)
    store.path_of(NAME).write_bytes(content[1])
    for _ in range(3):
        assert store.recall(NAME, BUILD) is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(store.path_of(NAME)) in caplog.text
    assert store.dropped(NAME) is None
    assert store.path_of(NAME).read_bytes() == content[1]
    assert store.recall("other", BUILD) == Entry("t16", BUILD)
    assert store.remember(NAME, "t8", BUILD, margin_permille=20)
    assert store.path_of(NAME).read_bytes() == GOOD
    assert Autotune(tmp_path, FACTS).recall(NAME, BUILD).value == "t8"


def test_a_directory_and_a_pipe_in_an_entrys_place_are_misses(tmp_path, caplog):
    store = Autotune(tmp_path, FACTS)
    store.path_of("directory").mkdir(parents=True)
    os.mkfifo(store.path_of("pipe"))
    for name in ("directory", "pipe"):
        assert store.recall(name, BUILD) is None
        assert store.recall(name, BUILD) is None
    assert len(caplog.records) == 2
    assert store.remember("pipe", "t8", BUILD)
    assert not store.remember("directory", "t8", BUILD)
    assert store.recall("directory", BUILD).value == "t8"


def test_an_answer_too_long_to_be_read_again_is_not_written(tmp_path, caplog):
    store = Autotune(tmp_path, FACTS)
    assert not store.remember(NAME, "t8", BUILD, why="x" * MOST_BYTES)
    assert store.recall(NAME, BUILD).value == "t8"
    assert files(tmp_path) == []


def test_a_missing_directory_is_made_at_the_first_answer(tmp_path):
    store = Autotune(tmp_path / "not" / "yet", FACTS)
    assert store.recall(NAME, BUILD) is None
    assert not (tmp_path / "not").exists()
    assert store.remember(NAME, "t8", BUILD)


def test_a_file_where_the_directory_would_be(tmp_path, caplog):
    (tmp_path / "file").write_text("precious")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        store = Autotune(directory, FACTS)
        check_memory_only(store)
        check_said_once(store, caplog)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_directory_that_vanishes_and_comes_back(tmp_path, caplog):
    directory = tmp_path / "store"
    store = Autotune(directory, FACTS)
    assert store.remember("kept", "t8", BUILD)
    shutil.rmtree(directory)
    directory.write_text("somebody's file")  # so that it cannot simply be made again
    check_memory_only(store)
    check_said_once(store, caplog)
    assert store.recall("kept", BUILD).value == "t8"
    directory.unlink()
    assert store.remember("a", "t16", BUILD)
    assert Autotune(directory, FACTS).recall("a", BUILD).value == "t16"


def test_a_directory_that_is_removed_is_made_again(tmp_path, caplog):
    store = Autotune(tmp_path / "store", FACTS)
    for value in ("t8", "t16"):
        assert store.remember(NAME, value, BUILD)
        shutil.rmtree(tmp_path / "store")
    assert store.recall(NAME, BUILD).value == "t16"
    assert caplog.records == []


def test_a_read_only_directory(tmp_path, caplog):
    Autotune(tmp_path, FACTS).remember("kept", "t8", BUILD)
    place = Autotune(tmp_path, FACTS).path_of("kept").parent
    place.chmod(0o555)
    try:
        if os.access(place, os.W_OK):
            pytest.skip("this user may write everywhere")
        store = Autotune(tmp_path, FACTS)
        check_memory_only(store)
        check_said_once(store, caplog)
        assert store.recall("kept", BUILD).value == "t8"
    finally:
        place.chmod(0o755)


@pytest.mark.parametrize("step", ["open", "fsync", "replace", "mkdir", "unlink"])
@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_disk_that_fails_at_any_step(tmp_path, caplog, monkeypatch, step, error):
    seed = Autotune(tmp_path, FACTS)
    seed.remember("kept", "t8", BUILD)
    seed.remember("stale", "t8", "old build")
    if step == "mkdir":
        shutil.rmtree(tmp_path)

    def fail(*args, **kwargs):
        raise OSError(error, os.strerror(error))

    store = Autotune(tmp_path, FACTS)
    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr("io.open", fail)
            patch.setattr("builtins.open", fail)
        else:
            patch.setattr(os, step, fail)
        store.recall("stale", BUILD)
        if step == "unlink":
            assert store.remember("a", "t8", BUILD)
            store.forget("a")
        else:
            check_memory_only(store)
    check_said_once(store, caplog)
    if step != "mkdir":
        assert seed.path_of("kept").read_bytes() == f"t8\n{BUILD}\nend\n".encode()
    assert store.remember("a", "t16", BUILD)
    assert Autotune(tmp_path, FACTS).recall("a", BUILD).value == "t16"
    if step != "unlink":
        assert not [path for path in files(tmp_path) if path.name.startswith(".")]


def test_an_answer_of_another_build_that_cannot_be_deleted_is_not_believed(
    tmp_path, caplog, monkeypatch
):
    Autotune(tmp_path, FACTS).remember(NAME, "t8", "old build")
    store = Autotune(tmp_path, FACTS)

    def fail(*args):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", fail)
    assert store.recall(NAME, BUILD) is None
    dropped = store.dropped(NAME)
    assert dropped == Entry("t8", "old build")
    assert store.recall(NAME, BUILD) is None
    assert store.dropped(NAME) is dropped  # so that a caller can tell it has reported it
    assert not store.remember(NAME, "t16", BUILD)
    assert store.recall(NAME, BUILD).value == "t16"
    assert len(caplog.records) == 1
