import os

import pytest

from xpu.errors import XpuError
from xpu.model import DeviceFacts
from xpu.store import Autotune, remove_entries, stored_entries

FACTS = [DeviceFacts(backend="any", multiprocessors=count) for count in (64, 128)]
LONG = "shape." + "x" * 400


def filled(directory):
    stores = [Autotune(directory, facts) for facts in FACTS]
    for store in stores:
        store.remember("a/b", "t8", "build", margin_permille=3)
        store.remember(LONG, "t16", "build")
    return stores


def test_every_device_and_its_true_names_are_listed(tmp_path):
    stores = filled(tmp_path)
    entries = stored_entries(tmp_path)
    assert entries == stores[0].entries()
    assert {(entry.device_key, entry.part, entry.name, entry.value) for entry in entries} == {
        (store.device_key, store.part, name, value)
        for store in stores
        for name, value in (("a/b", "t8"), (LONG, "t16"))
    }
    assert [dict(entry.notes) for entry in entries if entry.name == "a/b"] == [
        {"margin_permille": "3"}
    ] * 2
    assert all(dict(entry.notes) == {} for entry in entries if entry.name == LONG)
    assert all(entry.build_id == "build" and entry.fault == "" for entry in entries)


def test_what_is_no_answer_is_listed_with_its_fault(tmp_path):
    store = filled(tmp_path)[0]
    store.path_of("a/b").write_bytes(b"t8\nbuild\n")
    store.path_of(LONG).write_bytes(b"\0")
    store.path_of("dir").mkdir()
    (store.path_of("a/b").parent / "not quoted").write_text("t8\nbuild\nend\n")
    os.mkfifo(store.path_of("pipe"))
    faults = {entry.name: entry.fault for entry in stored_entries(tmp_path) if entry.fault}
    assert set(faults) == {"a/b", store.path_of(LONG).name, "dir", "not quoted", "pipe"}
    assert "last line" in faults["a/b"]
    assert "regular" in faults["pipe"]


def test_a_missing_directory_has_no_entries_and_a_file_is_named(tmp_path):
    assert stored_entries(tmp_path / "missing") == ()
    assert remove_entries(tmp_path / "missing") == ()
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(XpuError, match=str(file)):
        stored_entries(str(file))


def test_entries_are_removed_by_name_for_every_device(tmp_path):
    stores = filled(tmp_path)
    removed = remove_entries(tmp_path, {"a/b", "no such name"})
    assert [entry.name for entry in removed] == ["a/b", "a/b"]
    assert {entry.name for entry in stored_entries(tmp_path)} == {LONG}
    assert Autotune(tmp_path, FACTS[0]).recall("a/b", "build") is None
    assert stores[1].remember("a/b", "t8", "build")


def test_all_are_removed_the_faulty_ones_too(tmp_path):
    store = filled(tmp_path)[0]
    store.path_of("a/b").write_bytes(b"torn")
    assert len(remove_entries(tmp_path)) == 4
    assert stored_entries(tmp_path) == ()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_wrong_directory_is_never_emptied(tmp_path):
    for path in ("README", "src/main.py", "src/pkg/mod.py", "any-mp4/src/mod.py", "src/01234567/x"):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("t8\nbuild\nend\n")
    (tmp_path / "any-mp4" / "01234567").write_text("a file where a part would be")
    before = sorted(tmp_path.rglob("*"))
    assert stored_entries(tmp_path) == ()
    assert remove_entries(tmp_path) == ()
    assert sorted(tmp_path.rglob("*")) == before


def test_one_that_cannot_be_removed_is_named_and_the_others_go(tmp_path):
    store = filled(tmp_path)[0]
    for name in ("dir-1", "dir-2"):
        (store.path_of(name) / "inside").mkdir(parents=True)
    with pytest.raises(XpuError, match="dir-1") as caught:
        remove_entries(tmp_path)
    assert any("dir-2" in note for note in caught.value.__notes__)
    assert {entry.name for entry in stored_entries(tmp_path)} == {"dir-1", "dir-2"}


def test_a_home_directory_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    filled(tmp_path / "store")
    assert len(stored_entries("~/store")) == 4
    assert len(remove_entries("~/store", [LONG])) == 2
