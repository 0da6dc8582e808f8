"""A position in a mapped file that never reads past its end.

It reads and skips GGUF's scalars, texts and arrays. It allocates nothing that a figure in
the file could make large, and its work is bounded by the file's length.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final, NoReturn

from xpu.errors import XpuConfigError

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
# Source: enum gguf_metadata_value_type of the GGUF specification; bytes of each scalar.
_SCALAR_BYTES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING: Final = 8
_ARRAY: Final = 9
# No known file nests arrays more than twice; without a bound a hostile one would recurse.
_DEEPEST: Final = 8


class Cursor:
    """Reads little-endian values one after another; `position` is in bytes."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.position = 0
        self.length = len(data)
        self._path = path
        self._data = data

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        """Raise the one error that a file can cause, with its name and the byte."""
        where = self.position if at is None else at
        raise XpuConfigError(f"{self._path}, byte {where}: {what}")

    def need(self, count: int, what: str) -> None:
        """Make sure that so many bytes are left."""
        left = self.length - self.position
        if count > left:
            self.fail(
                f"{what} needs {count} bytes and the file has {left} left; "
                "it is damaged or cut short, copy or download it again"
            )

    def u32(self, what: str) -> int:
        """Read an unsigned number of 32 bits."""
        self.need(4, what)
        (value,) = _U32.unpack_from(self._data, self.position)
        self.position += 4
        return int(value)

    def u64(self, what: str) -> int:
        """Read an unsigned number of 64 bits."""
        self.need(8, what)
        (value,) = _U64.unpack_from(self._data, self.position)
        self.position += 8
        return int(value)

    def text(self, what: str) -> bytes:
        """Read a text: its length, then its bytes."""
        length = self.u64(f"the length of {what}")
        self.need(length, what)
        start = self.position
        self.position += length
        return self._data[start : self.position]

    def skip_value(self, kind: int, what: str, depth: int = 0) -> None:
        """Pass over one metadata value of a kind."""
        if kind == _ARRAY:
            self._skip_array(what, depth)
        else:
            self._skip_many(kind, 1, what)

    def _skip_array(self, what: str, depth: int) -> None:
        if depth == _DEEPEST:
            self.fail(f"{what} nests arrays more than {_DEEPEST} deep")
        kind = self.u32(f"the element kind of {what}")
        count = self.u64(f"the length of {what}")
        if kind != _ARRAY:
            self._skip_many(kind, count, what)
            return
        self.need(12 * count, what)  # an array is at least its kind and its length
        for _ in range(count):
            self._skip_array(what, depth + 1)

    def _skip_many(self, kind: int, count: int, what: str) -> None:
        if kind == _STRING:
            self.need(8 * count, what)
            self._skip_texts(count, what)
        elif kind in _SCALAR_BYTES:
            self.need(_SCALAR_BYTES[kind] * count, what)
            self.position += _SCALAR_BYTES[kind] * count
        else:
            self.fail(f"{what} is of kind {kind}; allowed: 0 to 12")

    def _skip_texts(self, count: int, what: str) -> None:
        # A vocabulary is a quarter of a million texts: this loop is the cost of opening a model.
        length_at, last = _U64.unpack_from, self.length - 8
        position = self.position
        with memoryview(self._data) as data:
            for _ in range(count):
                if position > last:
                    break
                position += 8 + length_at(data, position)[0]
            else:
                if position <= self.length:
                    self.position = position
                    return
        self.fail(f"a text of {what} passes the end of the file; copy or download it again")
