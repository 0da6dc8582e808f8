"""Where the tensors of a GGUF file lie: its header, checked against the file's length.

Source: the GGUF specification (docs/gguf.md of ggml), versions 2 and 3. Metadata is passed
over, but for the alignment.
"""

from __future__ import annotations

import itertools
import math
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from xpu_source_gguf.cursor import Cursor
from xpu_source_gguf.types import TensorType, tensor_type

MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT_KEY: Final = b"general.alignment"
_DEFAULT_ALIGNMENT: Final = 32
_MOST_DIMENSIONS: Final = 4  # Source: GGML_MAX_DIMS
# Far above any model; a hostile file of empty entries would keep the reader busy for a minute.
_MOST_PAIRS: Final = 2**16
_MOST_TENSORS: Final = 2**20
_LEAST_PAIR_BYTES: Final = 13  # length of the key, kind, a value of one byte
_LEAST_INFO_BYTES: Final = 24  # length of the name, dimensions, type, offset
_MOST_ELEMENTS: Final = 2**63 - 1  # sizes are signed in every reader
_LEAST_TENSOR_BYTES: Final = 1  # of a type that is not known
_KIND_U32: Final = 4


@attrs.frozen
class TensorInfo:
    """One tensor: its sizes with the fastest first, and its bytes in the file.

    `begin` is its first byte, `nbytes` its length, absent for an unknown type; `stated_at`
    is the byte at which the header speaks of it.
    """

    name: str
    kind: TensorType
    sizes: tuple[int, ...]
    begin: int
    nbytes: int | None
    stated_at: int


def read_layout(path: Path, data: mmap.mmap) -> tuple[TensorInfo, ...]:
    """Read the header of a mapped file.

    Raises
    ------
    XpuConfigError
        The header is not GGUF 2 or 3, little-endian, or what it states does not lie within
        the file.
    """
    cursor = Cursor(path, data)
    tensor_count, pair_count = _read_counts(cursor, data)
    alignment = _read_alignment(cursor, pair_count)
    cursor.need(_LEAST_INFO_BYTES * tensor_count, f"a list of {tensor_count} tensors")
    infos = [_read_info(cursor) for _ in range(tensor_count)]
    data_start = -(-cursor.position // alignment) * alignment
    placed = tuple(_placed(cursor, info, data_start, alignment) for info in infos)
    _check_names(cursor, placed)
    _check_overlaps(cursor, placed)
    return placed


def _read_counts(cursor: Cursor, data: mmap.mmap) -> tuple[int, int]:
    if data[:4] != MAGIC:
        cursor.fail(f"the file begins with {data[:4]!r}, a GGUF file with {MAGIC!r}")
    cursor.position = 4
    version = cursor.u32("the version")
    if version and version & 0xFFFF == 0:
        cursor.fail("the file is big-endian; convert it to little-endian GGUF", at=4)
    if version not in _VERSIONS:
        cursor.fail(f"GGUF version {version} is not read; allowed: 2, 3; convert it again", at=4)
    tensor_count = cursor.u64("the number of tensors")
    pair_count = cursor.u64("the number of metadata entries")
    if tensor_count > _MOST_TENSORS or pair_count > _MOST_PAIRS:
        cursor.fail(
            f"the file states {tensor_count} tensors and {pair_count} metadata entries; "
            f"allowed: {_MOST_TENSORS} and {_MOST_PAIRS}",
            at=8,
        )
    cursor.need(_LEAST_PAIR_BYTES * pair_count, f"a list of {pair_count} metadata entries")
    return tensor_count, pair_count


def _read_alignment(cursor: Cursor, pair_count: int) -> int:
    alignment = _DEFAULT_ALIGNMENT
    for index in range(pair_count):
        key = cursor.text(f"the key of metadata entry {index}")
        what = f"metadata entry {index}"
        kind = cursor.u32(f"the kind of {what}")
        if key != _ALIGNMENT_KEY:
            cursor.skip_value(kind, what)
            continue
        alignment = cursor.u32("the alignment") if kind == _KIND_U32 else 0
        if alignment.bit_count() != 1:
            cursor.fail("general.alignment is not a power of two of 32 bits")
    return alignment


def _read_info(cursor: Cursor) -> TensorInfo:
    stated_at = cursor.position
    try:
        name = cursor.text("a tensor's name").decode("utf-8")
    except UnicodeDecodeError:
        cursor.fail("a tensor's name is not UTF-8", at=stated_at)
    count = cursor.u32(f"the number of dimensions of {name!r}")
    if count > _MOST_DIMENSIONS:
        cursor.fail(f"tensor {name!r} has {count} dimensions; allowed: 0 to {_MOST_DIMENSIONS}")
    sizes = tuple(cursor.u64(f"a size of tensor {name!r}") for _ in range(count))
    if not 1 <= math.prod(sizes) <= _MOST_ELEMENTS:
        cursor.fail(f"tensor {name!r} has the sizes {sizes}: not a number of elements")
    kind = tensor_type(cursor.u32(f"the type of tensor {name!r}"))
    offset = cursor.u64(f"the offset of tensor {name!r}")
    nbytes = kind.bytes_for(math.prod(sizes))
    return TensorInfo(name, kind, sizes, offset, nbytes, stated_at)


def _placed(cursor: Cursor, info: TensorInfo, data_start: int, alignment: int) -> TensorInfo:
    """Turn the offset in the data into one in the file, and check both ends."""
    row = info.sizes[0] if info.sizes else 1
    block = info.kind.block_elements
    if block is not None and row % block:
        cursor.fail(
            f"tensor {info.name!r} has rows of {row}, no multiple of "
            f"{info.kind.name}'s block of {block}",
            at=info.stated_at,
        )
    if info.begin % alignment:
        cursor.fail(
            f"tensor {info.name!r} has offset {info.begin}, no multiple of {alignment}",
            at=info.stated_at,
        )
    begin = data_start + info.begin
    end = begin + (info.nbytes or _LEAST_TENSOR_BYTES)
    if end > cursor.length:
        cursor.fail(
            f"tensor {info.name!r} ends at byte {end} and the file at {cursor.length}; "
            "it is damaged or cut short, copy or download it again",
            at=info.stated_at,
        )
    return attrs.evolve(info, begin=begin)


def _check_names(cursor: Cursor, infos: Sequence[TensorInfo]) -> None:
    seen: set[str] = set()
    for info in infos:
        if info.name in seen:
            cursor.fail(f"two tensors are called {info.name!r}", at=info.stated_at)
        seen.add(info.name)


def _check_overlaps(cursor: Cursor, infos: Sequence[TensorInfo]) -> None:
    ordered = sorted(infos, key=lambda info: info.begin)
    for before, after in itertools.pairwise(ordered):
        if after.begin < before.begin + (before.nbytes or _LEAST_TENSOR_BYTES):
            cursor.fail(
                f"tensors {before.name!r} and {after.name!r} overlap at byte {after.begin}",
                at=after.stated_at,
            )
