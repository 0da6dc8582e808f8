"""One answer, and the text of its file.

First line the value, second the build id, then a line ``name value`` for each note, last
line ``end``. Printable ASCII stands for itself, all else and ``%`` for ``%XX``, so that a
line is a line whatever the answer holds. The file of a shortened name has its whole name
in a line ``name``. What is not exactly this is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

import attrs

from xpu.store.names import file_name, is_shortened, spelled_out

_END: Final = "end"
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def _as_text(notes: Mapping[str, object]) -> Mapping[str, str]:
    # An absent note stays absent: "None" would be read back as a text.
    return MappingProxyType({name: str(note) for name, note in notes.items() if note is not None})


@attrs.frozen
class Entry:
    """A remembered value, the build it rests on, and its notes by name."""

    value: str
    build_id: str
    notes: Mapping[str, str] = attrs.field(factory=dict, converter=_as_text, hash=False)


@attrs.frozen
class StoredEntry:
    """One file of a store. `fault` says why it is no answer; it is empty for an answer.

    The name of a faulty entry is its file's name where the true one cannot be had.
    """

    path: Path
    device_key: str
    part: str
    name: str
    value: str = ""
    build_id: str = ""
    notes: Mapping[str, str] = attrs.field(factory=dict, converter=_as_text, hash=False)
    fault: str = ""


def to_bytes(name: str, entry: Entry) -> bytes:
    """Return the content of an answer's file."""
    notes = dict(entry.notes)
    if is_shortened(file_name(name)):
        notes = {"name": name, **notes}
    lines = [_quoted(entry.value), _quoted(entry.build_id)]
    lines += [f"{_quoted(key, plain='')} {_quoted(note)}" for key, note in notes.items()]
    return "\n".join([*lines, _END, ""]).encode("ascii")


def from_bytes(file: str, data: bytes) -> tuple[str, Entry]:
    """Return the true name and the answer that a file holds.

    Raises
    ------
    ValueError
        The content, or the file's name, is not what this store writes; the message says
        what is wrong.
    """
    try:
        lines = data.decode("utf-8").removesuffix("\n").split("\n")
        if len(lines) < 3 or lines[-1] != _END:
            raise ValueError("its last line is missing")
        value, build, *rest = lines[:-1]
        if not all(line.isprintable() for line in lines):
            raise ValueError("it holds characters that no line has")
        notes = _notes(rest)
        whole = notes.pop("name", None)
        name = whole if is_shortened(file) else spelled_out(file)
        if name is None or file_name(name) != file:
            raise ValueError("its name is not the one that its file would have")
        return name, Entry(_unquoted(value), _unquoted(build), notes)
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None


def _notes(lines: list[str]) -> dict[str, str]:
    notes: dict[str, str] = {}
    for line in lines:
        name, space, note = line.partition(" ")
        if not space or _unquoted(name) in notes:
            raise ValueError("a line is not a name and its value, or is there twice")
        notes[_unquoted(name)] = _unquoted(note)
    return notes


def _quoted(text: str, plain: str = _PLAIN) -> str:
    return quote(text, safe=plain, errors="surrogatepass")


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogatepass")
