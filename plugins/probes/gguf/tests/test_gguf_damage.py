"""A damaged or hostile file is one XpuConfigError, quickly, whatever its figures say."""

from __future__ import annotations

import os
import random
import re
import struct
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from xpu.errors import XpuConfigError
from xpu.spec import ModelMatrix
from xpu_source_gguf.source import GgufSource

Build = Callable[..., Path]


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def info(name: bytes, sizes: Sequence[int], kind: int, offset: int) -> bytes:
    dims = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Write a GGUF file by hand, so that any figure in it can be wrong."""

    def write(
        *infos: bytes,
        pairs: Sequence[bytes] = (),
        version: int = 3,
        tensor_count: int | None = None,
        pair_count: int | None = None,
        magic: bytes = b"GGUF",
        data: int = 4096,
    ) -> Path:
        header = magic + struct.pack(
            "<IQQ",
            version,
            len(infos) if tensor_count is None else tensor_count,
            len(pairs) if pair_count is None else pair_count,
        )
        body = header + b"".join(pairs) + b"".join(infos)
        body += bytes(-len(body) % 32) + bytes(data)
        path = tmp_path / "made.gguf"
        path.write_bytes(body)
        return path

    return write


HUGE = 2**60
PAIR = text(b"a.b") + struct.pack("<IB", 0, 7)
WORDS = text(b"words") + struct.pack("<IIQ", 9, 8, 2) + text(b"one") + text(b"three")
ALIGNED = text(b"general.alignment") + struct.pack("<II", 4, 32)


def array_of(kind: int, count: int) -> bytes:
    return text(b"words") + struct.pack("<IIQ", 9, kind, count)


def nested(depth: int) -> bytes:
    one_array = struct.pack("<IQ", 9, 1)
    return text(b"deep") + struct.pack("<I", 9) + one_array * depth + struct.pack("<IQ", 0, 0)


BROKEN: dict[str, Callable[[Build], Path]] = {
    "magic": lambda build: build(magic=b"GGML"),
    "version 1": lambda build: build(version=1),
    "version 4": lambda build: build(version=4),
    "big-endian": lambda build: build(version=3 << 24),
    "tensor count": lambda build: build(tensor_count=HUGE),
    "pair count": lambda build: build(pair_count=HUGE),
    "tensors without names": lambda build: build(tensor_count=150),
    "pairs that the file could hold": lambda build: build(pair_count=2**17, data=2**21),
    "key length": lambda build: build(pairs=[struct.pack("<Q", HUGE)]),
    "text length": lambda build: build(
        pairs=[text(b"a") + struct.pack("<I", 8) + struct.pack("<Q", HUGE)]
    ),
    "texts": lambda build: build(pairs=[array_of(8, HUGE)]),
    "texts too long": lambda build: build(
        pairs=[array_of(8, 2) + struct.pack("<Q", 2**64 - 8) + text(b"")]
    ),
    "numbers": lambda build: build(pairs=[array_of(12, HUGE)]),
    "arrays": lambda build: build(pairs=[array_of(9, HUGE)]),
    "deep arrays": lambda build: build(pairs=[nested(5000)], data=0),
    "kind": lambda build: build(pairs=[text(b"a") + struct.pack("<IQ", 13, 0)]),
    "kind of array": lambda build: build(pairs=[array_of(77, 1)]),
    "alignment 0": lambda build: build(
        pairs=[text(b"general.alignment") + struct.pack("<II", 4, 0)]
    ),
    "alignment 24": lambda build: build(
        pairs=[text(b"general.alignment") + struct.pack("<II", 4, 24)]
    ),
    "alignment kind": lambda build: build(
        pairs=[text(b"general.alignment") + struct.pack("<IB", 0, 32)]
    ),
    "name": lambda build: build(info(b"\xff\xfe", (4, 4), 0, 0)),
    "twice": lambda build: build(info(b"a", (4, 4), 0, 0), info(b"a", (4, 4), 0, 64)),
    "dimensions": lambda build: build(info(b"a", (1,) * 5, 0, 0)),
    "size 0": lambda build: build(info(b"a", (4, 0), 0, 0)),
    "sizes": lambda build: build(info(b"a", (2**63, 2**63), 0, 0)),
    "sizes of an unknown type": lambda build: build(info(b"a", (2**63, 2**63), 99, 0)),
    "rows": lambda build: build(info(b"a", (100, 4), 12, 0)),
    "offset": lambda build: build(info(b"a", (4, 4), 0, HUGE)),
    "odd offset": lambda build: build(info(b"a", (4, 4), 0, 4)),
    "end": lambda build: build(info(b"a", (64, 17), 0, 0)),
    "unknown type at the end": lambda build: build(info(b"a", (4, 4), 99, 4096)),
    "overlap": lambda build: build(info(b"a", (4, 8), 0, 0), info(b"b", (4, 4), 0, 96)),
    "same place": lambda build: build(info(b"a", (4, 4), 99, 0), info(b"b", (4, 4), 0, 0)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_one_error_with_file_and_byte_and_little_memory(what: str, build: Build) -> None:
    path = BROKEN[what](build)
    tracemalloc.start()
    start = time.perf_counter()
    with pytest.raises(XpuConfigError, match=rf"{re.escape(str(path))}, byte \d+: "):
        GgufSource().open(path)
    seconds = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 1
    assert peak < 2**20


def test_what_is_nearly_broken_is_read(build: Build) -> None:
    path = build(
        info(b"a", (64, 16), 0, 0), pairs=[PAIR, WORDS, nested(6), array_of(8, 0)], version=2
    )
    (matrix,) = GgufSource().open(path).matrices()
    assert (matrix.n, matrix.k) == (16, 64)


def test_an_unknown_type_is_listed_and_its_rows_are_refused_by_name(build: Build) -> None:
    model = GgufSource().open(build(info(b"a", (8, 4), 99, 0), info(b"b", (8, 4), 0, 32)))
    unknown, known = model.matrices()
    assert unknown.constants == {"format": "type_99"}
    assert model.rows(known).shape == (4, 32)
    with pytest.raises(XpuConfigError, match="type_99"):
        model.rows(unknown)


def test_a_matrix_of_another_model_and_a_closed_model_are_named(build: Build) -> None:
    model = GgufSource().open(build(info(b"a", (8, 4), 0, 0)))
    with pytest.raises(XpuConfigError, match="'a'"):
        model.rows(ModelMatrix("a", {"format": "f32"}, n=8, k=4))
    (matrix,) = model.matrices()
    model.close()
    with pytest.raises(XpuConfigError, match="closed"):
        model.rows(matrix)


def test_what_is_no_file(tmp_path: Path) -> None:
    source = GgufSource()
    empty, pipe = tmp_path / "empty.gguf", tmp_path / "pipe.gguf"
    empty.touch()
    os.mkfifo(pipe)
    for path in (tmp_path, tmp_path / "missing.gguf", empty, pipe):
        assert not source.accepts(path)
        with pytest.raises(XpuConfigError, match=re.escape(str(path))):
            source.open(path)


def test_accepts_by_content(build: Build, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGU")
    assert GgufSource().accepts(build())
    assert not GgufSource().accepts(other)


def read_all(path: Path) -> None:
    try:
        model = GgufSource().open(path)
        for matrix in model.matrices():
            if not matrix.constants["format"].startswith("type_"):
                assert model.rows(matrix).shape[0] == matrix.n
    except XpuConfigError:
        return


@pytest.fixture
def whole(build: Build) -> bytes:
    infos = [info(b"a", (256, 3), 12, 0), info(b"b", (5,), 0, 448), info(b"c", (32, 2), 8, 480)]
    path = build(*infos, pairs=[ALIGNED, PAIR, WORDS, nested(2)], data=480 + 68)
    return path.read_bytes()


def test_truncated_at_every_byte(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    assert len(whole) % 32 == 4
    path.write_bytes(whole)
    assert len(GgufSource().open(path).matrices()) == 2
    for length in reversed(range(len(whole))):
        os.truncate(path, length)
        with pytest.raises(XpuConfigError):
            GgufSource().open(path)


def test_flipped_bytes(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "flipped.gguf"
    chance = random.Random()
    header = len(whole) - 548
    for position in range(header):
        for mask in (0xFF, 1 << chance.randrange(8)):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            path.write_bytes(damaged)
            read_all(path)


def test_several_random_bytes_at_once(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "noise.gguf"
    chance = random.Random()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 9)):
            damaged[chance.randrange(24, len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        read_all(path)
