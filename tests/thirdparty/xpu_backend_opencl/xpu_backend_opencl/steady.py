"""Takes the random names of temporary files out of a program binary.

PoCL compiles from a file with a random name and leaves its path in the binary: in a table of
names, and in LLVM bitcode, which packs a text into 7 bits a letter and begins it at any bit. An
answer in XPU's store rests on the hash of the code, so equal sources should give equal bytes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_TEMPORARY: Final = re.compile(rb"tempfile_\w{6}(?=\.cl)")
_WIDTHS: Final = (8, 7)


def steady(code: bytes, directory: Path) -> bytes:
    """Return a binary in which `directory`, where it was made, and file names are blanked."""
    names = {os.fsencode(directory), *_TEMPORARY.findall(code)}
    for name in sorted(names):
        for width in _WIDTHS:
            for shift in range(8):
                code = _blanked(code, name, width, shift)
    return code


def _blanked(code: bytes, name: bytes, width: int, shift: int) -> bytes:
    """Blank a text of `width` bits a letter that begins `shift` bits into a byte, lowest first."""
    bits = _packed(name, width) << shift
    blank = _packed(b"_" * len(name), width) << shift
    count = len(name) * width
    mask = ((1 << count) - 1) << shift
    length = (shift + count + 7) // 8
    inner = bits.to_bytes(length, "little")[1:-1]  # the bytes that are all its own
    found = code.find(inner, 1)
    while found > 0:
        place = slice(found - 1, found - 1 + length)
        window = int.from_bytes(code[place], "little")
        if window & mask == bits:
            fresh = (window & ~mask | blank).to_bytes(length, "little")
            code = code[: place.start] + fresh + code[place.stop :]
        found = code.find(inner, found + 1)
    return code


def _packed(name: bytes, width: int) -> int:
    return sum(letter << width * place for place, letter in enumerate(name))
