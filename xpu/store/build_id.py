"""What an answer rested on, as one short text that changes when any of it does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

_DIGITS: Final = 24  # 96 bits: two builds that share an id by chance are out of the question


def build_id(parts: Mapping[str, str], code: Mapping[str, str]) -> str:
    """Condense what an answer rests on.

    Parameters
    ----------
    parts
        Identity by name: device, driver, memory mode, dtypes, threads, power mode,
        version of the timing protocol.
    code
        Of each survivor by name, its code hash or its library's name and version.

    Returns
    -------
    str
        24 hexadecimal digits, the same in every process and for every order of the
        mappings.
    """
    digest = hashlib.sha256()
    for piece in (*_pieces(parts), *_pieces(code)):
        digest.update(piece)
    return digest.hexdigest()[:_DIGITS]


def _pieces(mapping: Mapping[str, str]) -> Iterator[bytes]:
    # Each text goes in behind its length, so that no two pairs of mappings read alike.
    yield b"%d;" % len(mapping)
    for name in sorted(mapping):
        for text in (name, mapping[name]):
            encoded = text.encode("utf-8", "surrogatepass")
            yield b"%d:" % len(encoded)
            yield encoded
