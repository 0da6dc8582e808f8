import hashlib
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from xpu.model import DeviceFacts
from xpu.store.names import (
    MOST_BYTES,
    UNKNOWN,
    device_key,
    file_name,
    is_device_key,
    is_part,
    is_shortened,
    part,
    spelled_out,
)

# Lone surrogates included: a name may come from a file name that is not UTF-8.
ANY_NAME = st.text(st.characters(), max_size=60) | st.text(alphabet=".%-/aA\0 é", max_size=400)
HOSTILE = [
    "",
    ".",
    "..",
    "...",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b\\c",
    "C:\\x:y",
    "a b\tc\nd",
    "nul\0nul",
    "tile (2) [x]*?",
    ".hidden",
    ".tmp-12-ab",
    "~root",
    "-rf",
    "%2E",
    "%-",
    "émoji 🦀",
    "\ud800",
    "x" * 400,
    "é" * 400,
    "/" * 400,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_is_one_visible_file_inside_its_directory(tmp_path, name):
    path = tmp_path / file_name(name)
    path.write_text("x")
    assert [found.name for found in tmp_path.iterdir()] == [file_name(name)]
    assert path.resolve().parent == tmp_path.resolve()
    assert not path.name.startswith(".")
    assert len(path.name.encode()) <= MOST_BYTES


@given(ANY_NAME, ANY_NAME)
def test_two_names_never_share_a_file(left, right):
    assume(left != right)
    assert file_name(left) != file_name(right)


def test_hostile_names_never_share_a_file():
    # The shortened names and the names that look like shortened ones are among them.
    names = {*HOSTILE, *(file_name(name) for name in HOSTILE)}
    names |= {"x" * 401, "x" * 399 + "y", "é" * 401, "%", "%%-", "%25", "%2F", "/"}
    assert len({file_name(name) for name in names}) == len(names)


@given(ANY_NAME)
def test_a_file_name_is_short_plain_and_spells_its_name_out(name):
    file = file_name(name)
    assert 0 < len(file) <= MOST_BYTES
    assert set(file) <= set(string.ascii_letters + string.digits + "_.-~%")
    assert is_shortened(file) or spelled_out(file) == name


def test_names_of_the_schedule_stay_as_they_are():
    for name in ("shape.q4k_tile.512x4096x4096", "mvVariant-q4_K-4096x4096-c1", "partWgs"):
        assert file_name(name) == name
    assert file_name("x" * MOST_BYTES) == "x" * MOST_BYTES
    assert file_name("x" * 400).startswith("x" * 150)


def test_case_is_kept():
    assert file_name("shape.Q4K") != file_name("shape.q4k")


GEOMETRY = {
    "multiprocessors": 132,
    "simds_per_multiprocessor": 4,
    "wave_width": 32,
    "registers_per_multiprocessor": 65536,
    "shared_bytes_per_multiprocessor": 233472,
    "max_threads_per_multiprocessor": 2048,
}


def test_device_key_reads_as_backend_and_geometry():
    key = device_key(DeviceFacts(backend="any", **GEOMETRY))
    assert key == "any-mp132-simd4-wave32-reg65536-shared233472-threads2048"


@pytest.mark.parametrize("fact", GEOMETRY)
def test_device_key_tells_parts_apart_by_each_fact(fact):
    full = device_key(DeviceFacts(backend="any", **GEOMETRY))
    other = device_key(DeviceFacts(backend="any", **{**GEOMETRY, fact: GEOMETRY[fact] + 1}))
    absent = device_key(DeviceFacts(backend="any", **{**GEOMETRY, fact: None}))
    assert len({full, other, absent}) == 3


def test_device_key_leaves_out_what_is_absent():
    assert device_key(DeviceFacts(backend="cpu", multiprocessors=2, wave_width=16)) == (
        "cpu-mp2-wave16"
    )
    assert device_key(DeviceFacts(backend="b", shared_bytes_per_block=49152)) == "b-shared49152"


def test_a_part_without_geometry_is_unknown():
    facts = DeviceFacts(backend="cpu", name="some part", memory_bytes=1 << 30, multiprocessors=0)
    assert device_key(facts) == UNKNOWN


@given(st.text(st.characters(), max_size=300))
def test_any_backend_gives_a_recognised_key_that_is_one_directory(backend):
    key = device_key(DeviceFacts(backend=backend, multiprocessors=3))
    assert is_device_key(key)
    assert "/" not in key
    assert not key.startswith(".")
    assert len(key) <= MOST_BYTES


@pytest.mark.parametrize(
    "directory", ["unknown", "src", "mp4", "-mp4", "a-mp", "a-mp4-x", "a-mp4/"]
)
def test_other_directories_are_no_device_keys(directory):
    assert not is_device_key(directory)


def test_part_is_the_hash_of_the_uuid():
    assert part(DeviceFacts()) == hashlib.sha256(b"").hexdigest()[:8]
    one, two = (part(DeviceFacts(uuid=uuid)) for uuid in ("GPU-1", "GPU-2"))
    assert one != two
    assert is_part(one)
    assert not is_part(one + "0")
    assert not is_part(one.upper() + "g")
