"""Literal lane counts in a source that is to be right for waves of any width.

A source of the dialects with waves says `wave_width`, or a group of at most 32 lanes, which
every wave is made of. A number that stands for the width itself is right for one of them only.
What is looked for is certain: shapes of code that mean the width, and nothing else. Called where
units are made.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Final

_LEFT_OUT: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_CALL: Final = r"(?:xpu\s*::\s*)?"
_SUFFIX: Final = r"[uUlL]*\b"
_WIDTH: Final = rf"(?:32|64|0x20|0x40){_SUFFIX}"
_LAST: Final = rf"(?:31|63|0x1[fF]|0x3[fF]){_SUFFIX}"

_NAME: Final = (
    r"(?:\w*(?:wave|warp|wavefront)_?(?:width|size|lanes|threads)|(?-i:WAVE|WARP|WAVEFRONT))\b"
)

_SHAPES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        # The place of a wave's first thread, or its share of anything that threads have.
        re.compile(
            rf"\b{_CALL}wave\s*\(\s*\)\s*(?:\*\s*{_WIDTH}|<<\s*[56]{_SUFFIX})"
            rf"|{_WIDTH}\s*\*\s*{_CALL}wave\s*\(\s*\)"
        ),
        "a wave's number is multiplied by a number of lanes",
    ),
    (
        # The first or last lane of what a wave is taken for.
        re.compile(
            rf"\b{_CALL}lane\s*\(\s*\)\s*(?:[=!]=\s*{_LAST}|(?:<|>=)\s*{_WIDTH}|(?:<=|>)\s*{_LAST})"
            rf"|(?:{_LAST}\s*[=!]=|{_WIDTH}\s*(?:>|<=)|{_LAST}\s*(?:>=|<))\s*{_CALL}lane\s*\(\s*\)"
        ),
        "a lane is compared with a number of lanes",
    ),
    (
        # Lanes 32 and on are in waves of 64 alone.
        re.compile(
            rf"\b{_CALL}shuffle(?:_xor|_down)?\s*\([^;{{}}]*,\s*(?:32|0x20|[4-5]\d|3[3-9]|6[0-3])"
            rf"{_SUFFIX}\s*\)"
        ),
        "a shuffle reaches a lane that waves of 32 lack",
    ),
    (
        re.compile(
            rf"\b{_NAME}\s*=\s*{_WIDTH}\s*[;,}}]|#\s*define\s+{_NAME}\s+\(?{_WIDTH}\)?\s*$",
            re.IGNORECASE | re.MULTILINE,
        ),
        "a name for the width of a wave is given a number",
    ),
)


def literal_lanes(text: str, includes: Mapping[str, str]) -> str:
    """Say where a source or a file that it includes has a literal lane count.

    Returns
    -------
    str
        File, line and the words; the empty text where there is none.
    """
    for name, content in (("the source", text), *_included(text, includes)):
        if found := _found(content):
            return f"{name}, {found}"
    return ""


@functools.lru_cache(maxsize=256)
def _found(content: str) -> str:
    """Say where one file has a literal lane count; hundreds of members include the same files."""
    # What is left out keeps its lines.
    code = _LEFT_OUT.sub(lambda it: re.sub(r"[^\n]", " ", it[0]), content)
    for shape, why in _SHAPES:
        if found := shape.search(code):
            line = code.count("\n", 0, found.start()) + 1
            words = " ".join(content[found.start() : found.end()].split())
            return f"line {line}: {why}: {words}"
    return ""


def _included(text: str, includes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the files that a source includes, each once, with what they include."""
    waiting, seen = [text], set[str]()
    while waiting:
        for name in _names(waiting.pop()):
            if name in includes and name not in seen:
                seen.add(name)
                waiting.append(includes[name])
                yield name, includes[name]


@functools.lru_cache(maxsize=256)
def _names(text: str) -> tuple[str, ...]:
    """Return what a text includes; hundreds of members include the same files."""
    return tuple(re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE))
