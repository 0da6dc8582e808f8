"""Where an answer lies: the names of its two directories and of its file.

Every text maps to a name of plain ASCII that stays inside its directory and belongs to
that text alone. What is readable stays so: ``shape.q4k_tile.512x4096x4096`` is its own
file name, any other character becomes ``%XX`` as in an address.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote, unquote

from xpu.model import DeviceFacts

UNKNOWN: Final = "unknown"
"""Device key of a part that reports no geometry: its answers stay in memory."""

MOST_BYTES: Final = 200
"""Longest file name; common file systems allow 255, a temporary name included."""

_CUT: Final = "%-"  # a quoted name never holds this, so a shortened one is never another's own
_DIGITS: Final = 32

# (label, the facts that may stand for it: the first that is present does)
_GEOMETRY: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("mp", ("multiprocessors",)),
    ("simd", ("simds_per_multiprocessor",)),
    ("wave", ("wave_width",)),
    ("reg", ("registers_per_multiprocessor", "max_registers_per_thread")),
    (
        "shared",
        (
            "shared_bytes_per_multiprocessor",
            "shared_bytes_per_block_optin",
            "shared_bytes_per_block",
        ),
    ),
    ("threads", ("max_threads_per_multiprocessor", "max_threads_per_block")),
)
_KEY: Final = re.compile(rf".+?(-({'|'.join(label for label, _ in _GEOMETRY)})\d+)+")
_PART: Final = re.compile(r"[0-9a-f]{8}")


def device_key(facts: DeviceFacts) -> str:
    """Name the geometry that an answer holds for, for instance ``any-mp128-wave32``.

    An absent fact is left out. A part that reports none of them is `UNKNOWN`.

    Source: seeds, "Across runs: the store".
    """
    figures = [(label, _first_present(facts, names)) for label, names in _GEOMETRY]
    known = [f"{label}{figure}" for label, figure in figures if figure is not None]
    return "-".join([file_name(facts.backend, most=100), *known]) if known else UNKNOWN


def _first_present(facts: DeviceFacts, names: tuple[str, ...]) -> int | None:
    return next((facts.get(name) for name in names if facts.get(name) is not None), None)


def part(facts: DeviceFacts) -> str:
    """Name one part among equal ones: eight hexadecimal digits of its UUID's sha256."""
    uuid = (facts.uuid or "").encode("utf-8", "surrogatepass")
    return hashlib.sha256(uuid).hexdigest()[:8]


def is_device_key(directory: str) -> bool:
    """Whether a directory's name is one that `device_key` makes for a known geometry."""
    return _KEY.fullmatch(directory) is not None


def is_part(directory: str) -> bool:
    """Whether a directory's name is one that `part` makes."""
    return _PART.fullmatch(directory) is not None


def file_name(name: str, most: int = MOST_BYTES) -> str:
    """Return the file name of any text: at most `most` bytes of ASCII.

    A name that is too long, or empty, keeps its beginning and ends in its hash; its file
    holds the whole of it (see `is_shortened`).
    """
    quoted = quote(name, safe="", errors="surrogatepass")
    if quoted.startswith("."):  # not "." or "..", not hidden, not a temporary name
        quoted = "%2E" + quoted[1:]
    if 0 < len(quoted) <= most:
        return quoted
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    head = quoted[: most - len(_CUT) - _DIGITS]
    return re.sub(r"%.?$", "", head) + _CUT + digest


def is_shortened(file: str) -> bool:
    """Whether a file name stands for a text that it does not spell out."""
    return _CUT in file


def spelled_out(file: str) -> str:
    """Return the text that a file name spells out.

    Raises
    ------
    ValueError
        The file name is not one that `file_name` makes.
    """
    return unquote(file, errors="surrogatepass")
