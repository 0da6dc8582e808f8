"""Built code on disk: whole or not there, whatever happened to the directory."""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import stat
from pathlib import Path

import pytest

from xpu.adaptor import BuildCache
from xpu.model import Manifest
from xpu.spec import build_cache_directory


def fresh(**more):
    code = random.randbytes(random.randint(1, 5000))
    key = secrets.token_hex(32)
    manifest = Manifest("f.a", "native", hashlib.sha256(code).hexdigest(), "cc 1", "entry", **more)
    return key, code, manifest


def kept(cache):
    key, code, manifest = fresh()
    cache.keep(key, code, manifest)
    return key, code, manifest


def test_what_is_kept_is_found_by_another_process(tmp_path):
    key, code, manifest = kept(BuildCache(tmp_path / "deep" / "cache"))
    found, path = BuildCache(tmp_path / "deep" / "cache").find(key)
    assert (found, path.read_bytes()) == (manifest, code)
    assert BuildCache(tmp_path).find(key) is None


@pytest.mark.parametrize("name", ["code", "manifest.toml"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:0],
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: random.randbytes(len(data)),
    ],
)
def test_a_damaged_entry_is_a_miss_and_is_replaced(tmp_path, name, damage):
    cache = BuildCache(tmp_path)
    key, code, manifest = kept(cache)
    file = cache.find(key)[1].parent / name
    file.write_bytes(damage(file.read_bytes()))
    assert cache.find(key) is None
    found, path = cache.keep(key, code, manifest)
    assert (found, path.read_bytes()) == (manifest, code) == (cache.find(key)[0], code)
    assert not list(tmp_path.glob("*/.*"))


@pytest.mark.parametrize("missing", ["code", "manifest.toml"])
def test_half_an_entry_is_a_miss(tmp_path, missing):
    cache = BuildCache(tmp_path)
    key, code, manifest = kept(cache)
    (cache.find(key)[1].parent / missing).unlink()
    assert cache.find(key) is None
    cache.keep(key, code, manifest)
    assert cache.find(key) is not None


def test_a_file_in_the_place_of_an_entry_is_replaced(tmp_path):
    cache = BuildCache(tmp_path)
    key, code, manifest = fresh()
    (tmp_path / key[:2]).mkdir()
    (tmp_path / key[:2] / key).write_text("rubbish")
    cache.keep(key, code, manifest)
    assert BuildCache(tmp_path).find(key) is not None


def test_a_whole_entry_stays_when_another_process_comes_second(tmp_path):
    # A reader may be about to load the first one's file.
    cache = BuildCache(tmp_path)
    key, code, manifest = kept(cache)
    inode = cache.find(key)[1].stat().st_ino
    other = fresh()
    found, path = BuildCache(tmp_path).keep(key, other[1], other[2])
    assert (found, path.read_bytes()) == (manifest, code)
    assert path.stat().st_ino == inode
    assert not list(tmp_path.glob("*/.*"))


@pytest.fixture
def unwritable(tmp_path):
    """A cache with one entry, to which nothing can be added, not even by root."""
    cache = BuildCache(tmp_path / "cache")
    entry = kept(cache)
    for name in (f"{byte:02x}" for byte in range(256)):
        place = cache.directory / name
        if not place.exists():
            place.write_bytes(b"in the way")
    return cache.directory, entry


def test_without_a_writable_cache_builds_last_for_the_process(unwritable, caplog):
    directory, (old, old_code, _) = unwritable
    cache = BuildCache(directory)
    made = [entry for entry in (fresh() for _ in range(50)) if entry[0][:2] != old[:2]][:3]
    paths = [cache.keep(key, code, manifest)[1] for key, code, manifest in made]
    for (key, code, manifest), path in zip(made, paths, strict=True):
        assert cache.find(key) == (manifest, path)
        assert path.read_bytes() == code
        assert directory not in path.parents
    assert cache.find(old)[1].read_bytes() == old_code
    assert caplog.text.count("cannot be written") == 1
    assert BuildCache(directory).find(made[0][0]) is None


def test_an_entry_can_be_read_by_other_users(tmp_path):
    # An image is built by one user and run by another.
    cache = BuildCache(tmp_path)
    key, _, _ = kept(cache)
    place = cache.find(key)[1].parent
    assert stat.S_IMODE(place.stat().st_mode) == 0o755


def test_a_failure_is_told_until_the_key_compiles(tmp_path):
    cache = BuildCache(tmp_path)
    key, code, manifest = fresh()
    assert cache.failure(key) is None
    cache.keep_failure(key, "no such intrinsic: é")
    assert BuildCache(tmp_path).failure(key) == "no such intrinsic: é"
    assert cache.find(key) is None
    cache.keep(key, code, manifest)
    assert cache.failure(key) is None


def test_a_failure_that_cannot_be_written_is_no_error(unwritable):
    directory, (old, _, _) = unwritable
    key = next(key for key, _, _ in (fresh() for _ in range(50)) if key[:2] != old[:2])
    BuildCache(directory).keep_failure(key, "why")
    assert BuildCache(directory).failure(key) is None


def test_the_place_is_named_or_the_platforms_and_does_not_move(tmp_path, monkeypatch):
    assert build_cache_directory({"XPU_BUILD_CACHE": "/a/b"}) == Path("/a/b")
    assert build_cache_directory({}).name == "build"
    monkeypatch.setenv("HOME", "/somebody")
    assert BuildCache("~/x").directory == Path("/somebody/x")
    monkeypatch.chdir(tmp_path)
    cache = BuildCache("here")
    monkeypatch.chdir("/")
    assert cache.directory == tmp_path / "here"
    monkeypatch.setenv("XPU_BUILD_CACHE", os.fspath(tmp_path / "named"))
    assert BuildCache().directory == tmp_path / "named"
