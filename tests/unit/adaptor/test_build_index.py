"""The index of a build cache, and the adaptor of a batch that looks builds up in it."""

from __future__ import annotations

import hashlib
import json

import attrs
import pytest

from xpu.adaptor import BuildCache
from xpu.adaptor.index import BuildIndex
from xpu.model import BufferAccess, KernelFacts, LaunchSite, Manifest, Operation

CODE = b"code"
MANIFEST = Manifest(
    *("f.a", "native", hashlib.sha256(CODE).hexdigest(), "cc 1", "entry"),
    footprint=KernelFacts(registers=40, spill_bytes=0),
    buffers=(BufferAccess("x", "read", is_derived=True),),
    operations=(Operation("dp4a", places=3), Operation("mma")),
    max_threads=128,
    launch_sites=(LaunchSite("host.py:1", 128),),
)
KEY = "ab" * 32


@pytest.fixture
def kept(tmp_path):
    _, code = BuildCache(tmp_path).keep(KEY, CODE, MANIFEST)
    return code


@pytest.fixture
def reads(monkeypatch):
    """Count the code objects that are read."""
    seen = []
    find = BuildCache.find
    monkeypatch.setattr(BuildCache, "find", lambda cache, key: seen.append(key) or find(cache, key))
    return seen


def known(directory):
    cache = BuildCache(directory)
    found = cache.known(KEY)
    cache.save_index()
    return found


def test_code_that_was_read_once_is_not_read_again(tmp_path, kept, reads):
    assert known(tmp_path) == known(tmp_path) == known(tmp_path) == (MANIFEST, kept)
    assert reads == [KEY]


@pytest.mark.parametrize("name", ["code", "manifest.toml"])
def test_what_has_changed_since_is_read_again(tmp_path, kept, reads, name):
    known(tmp_path)
    file = kept.with_name(name)
    file.write_bytes(file.read_bytes() + b"\n")
    found = known(tmp_path)
    assert reads == [KEY] * 2
    assert found == (None if name == "code" else (MANIFEST, kept))


def test_what_is_gone_is_not_known(tmp_path, kept):
    known(tmp_path)
    kept.unlink()
    assert known(tmp_path) is None


def test_two_processes_add_to_one_index(tmp_path, kept):
    first, second = (BuildIndex(tmp_path / "index.json") for _ in range(2))
    assert first.find("one", kept) is second.find("two", kept) is None
    first.note("one", MANIFEST, kept)
    second.note("two", MANIFEST, kept)
    first.save()
    second.save()
    later = BuildIndex(tmp_path / "index.json")
    assert later.find("one", kept) == later.find("two", kept) == MANIFEST


def test_what_builds_have_in_common_stands_in_the_index_once(tmp_path, kept):
    file = tmp_path / "index.json"
    index = BuildIndex(file)
    other = attrs.evolve(MANIFEST, kernel="f.b", operations=(), buffers=())
    manifests = {"one": MANIFEST, "two": attrs.evolve(MANIFEST, kernel="f.c"), "three": other}
    for key, manifest in manifests.items():
        index.note(key, manifest, kept)
    index.save()
    assert file.read_text().count("dp4a") == file.read_text().count("host.py:1") == 1
    later = BuildIndex(file)
    found = {key: later.find(key, kept) for key in manifests}
    assert found == manifests
    assert found["one"].operations is found["two"].operations
    later.note("four", other, kept)
    later.save()
    assert {key: later.find(key, kept) for key in found} == found
    assert later.find("four", kept) == other


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "[]",
        lambda text: json.dumps({"schema": 2, "lists": [], "builds": {KEY: 3}}),
        lambda text: json.dumps({**json.loads(text), "schema": 99}),
        lambda text: json.dumps({**json.loads(text), "lists": []}),
        lambda text: json.dumps({**json.loads(text), "lists": [3, 3, 3]}),
        lambda text: text.replace('"kernel"', '"colonel"'),
        lambda text: "[" * 200_000,
    ],
)
def test_an_index_that_cannot_be_understood_is_made_anew(tmp_path, kept, reads, damage):
    known(tmp_path)
    index = tmp_path / "index.json"
    index.write_text(damage(index.read_text()))
    assert known(tmp_path) == (MANIFEST, kept)
    assert known(tmp_path) == (MANIFEST, kept)
    assert reads == [KEY] * 2


def test_an_index_that_cannot_be_written_costs_nothing_but_time(tmp_path, kept, reads):
    (tmp_path / "index.json").mkdir()
    assert known(tmp_path) == known(tmp_path) == (MANIFEST, kept)
    assert reads == [KEY] * 2
    assert {each.name for each in tmp_path.iterdir()} == {KEY[:2], "index.json"}
