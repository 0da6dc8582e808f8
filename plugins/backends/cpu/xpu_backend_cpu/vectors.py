"""Whether a kernel's main loop is vectorised, judged from the assembly text of its code.

What a compiler says of its loops differs between gcc, clang and zig, and none of them speaks of
code that was written with vector instructions to begin with. The code itself says both.
"""

from __future__ import annotations

import platform
import re
from typing import Final

import attrs

from xpu_backend_cpu.loops import Jumps, Loop, loops_of
from xpu_backend_cpu.scalars import called, packed_instructions, scalar_work

_INNER_TURNS: Final = 16
"""Turns of a loop for one of the loop around it, to tell which of the two has the most work. Any
number does that is well over one: more is done around a loop than in it, but not so many times."""

_TILE_WORK: Final = 64
"""What an instruction on matrices counts for: it does more than any on vectors."""

_LANES: Final = 4
"""Numbers for which an instruction on a vector counts beside those on one. Most have more; a loop
for what a vector leaves over is never the main one so."""


@attrs.frozen
class _Words:
    """The instructions of a set: jumps, arithmetic of vectors, of numbers, of whole numbers.

    Products of whole numbers are arithmetic of an innermost loop alone: elsewhere they make
    addresses. Other arithmetic of whole numbers is told from that of addresses in `scalars`.
    """

    jump: re.Pattern[str]
    ends: re.Pattern[str]
    vector: re.Pattern[str]
    tile: re.Pattern[str]
    scalar: re.Pattern[str]
    whole: re.Pattern[str]


# Source: Intel SDM volume 2, in AT&T syntax: the name of an instruction says what it takes.
_X86: Final = _Words(
    jump=re.compile(r"(?:j[a-z]+|loop\w*) (\.?[\w$.]+)$"),
    ends=re.compile(r"(?:jmp|ret[ql]?|ud2|hlt) "),
    vector=re.compile(
        r"v?(?:fn?m(?:add|sub)\d*|fm(?:addsub|subadd)\d*)p[sdh] "
        r"|v?(?:add|sub|mul|div|min|max|sqrt|dp|hadd)p[sdh] "
        r"|v?p(?:add|sub|mul|madd|max|min|sad|abs|avg|hadd|dp)\w* |vdp\w+ps |tdp\w+ |tcmm\w+ "
    ),
    tile=re.compile(r"tdp\w+ |tcmm\w+ "),
    scalar=re.compile(r"v?(?:fn?m(?:add|sub)\d*|add|sub|mul|div|min|max|sqrt)s[sdh] "),
    whole=re.compile(r"i?mul[bwlq]? "),
)
# Source: Arm ARM, A64 SIMD, SVE and SME: the operands name the elements of a vector.
_ARM: Final = _Words(
    jump=re.compile(r"(?:b|b\.\w+|cbn?z|tbn?z) (?:.*, *)?(\.?[\w$.]+)$"),
    ends=re.compile(r"(?:b|br|ret) "),
    vector=re.compile(
        r"(?:f?(?:add|sub|mul|mla|mls|max|min|maxnm|minnm|div)|[su](?:ml[as]l|mull|addlp|adalp)2?"
        r"|addp|[su]dot|usdot|sudot|bfdot|[su]mmla|usmmla|bfmmla|fmmla|[su]?mop[as]|[bf]fmop[as]) "
        r".*(?:\bv\d+\.\d*[bhsd]|\bz\w+\.[bhsd])"
    ),
    tile=re.compile(r"(?:[su]?mop[as]|[bf]fmop[as]) "),
    scalar=re.compile(r"f(?:n?m(?:add|sub|ul)|add|sub|div|max|min)\w* [hsd]\d"),
    whole=re.compile(r"(?:mul|madd|msub|[su]mull|[su]maddl) [wx]\d"),
)
_SETS: Final = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def vector_instructions(assembly: str, machine: str | None = None) -> int | None:
    """Count the vector instructions of a kernel's main loop that calculate.

    The main loop is the one with the most instructions that calculate, with those of the functions
    of the same text that it calls. A loop around another one is not it, unless it does far more in
    a turn.

    Parameters
    ----------
    machine
        Name of the architecture, as of `platform.machine`; this machine's when None.

    Returns
    -------
    int or None
        0 where that loop calculates, calls or stores number by number. None where no loop does
        any of that, or where the instructions are not known here.
    """
    words = _SETS.get((machine or platform.machine()).lower())
    if words is None:
        return None
    loops = loops_of(assembly, lambda text: _jumps(words, text, machine))
    counted = [_counted(loop, words) for loop in loops]
    work = [vectors + scalars + _TILE_WORK * tiles for vectors, scalars, tiles in counted]
    best = (0, 0)
    for at, loop in enumerate(loops):
        if all(work[inner] * _INNER_TURNS < work[at] for inner in loop.inner):
            # Of two with as much work the one with vectors: the other is what was left over.
            best = max(best, (work[at], counted[at][0]))
    if _is_scalar(loops, counted, machine):
        return 0
    return best[1] if best[0] else None


def _is_scalar(loops: list[Loop], counted: list[tuple[int, int, int]], machine: str | None) -> bool:
    """Whether the loop that does most, calls and whole numbers included, has no vector in it."""
    packed = [packed_instructions(loop.instructions, machine) for loop in loops]
    work = [
        _LANES * vectors
        + scalars
        + _TILE_WORK * tiles
        # Around an innermost loop whole numbers are made ready for it.
        + (0 if loop.inner else scalar_work(loop.instructions, machine))
        for loop, vectors, (_, scalars, tiles) in zip(loops, packed, counted, strict=True)
    ]
    best = (0, 1)
    for at, loop in enumerate(loops):
        if all(work[inner] * _INNER_TURNS < work[at] for inner in loop.inner):
            best = max(best, (work[at], packed[at]))
    return best[1] == 0


def _jumps(words: _Words, text: str, machine: str | None) -> Jumps:
    found = words.jump.match(text)
    to = None if found is None else found[1]
    return Jumps(to, words.ends.match(text) is None, called(text, machine))


def _counted(loop: Loop, words: _Words) -> tuple[int, int, int]:
    """Count instructions on vectors, on numbers, and on matrices, which are among the first."""
    vectors = scalars = tiles = 0
    for text in loop.instructions:
        if words.vector.match(text):
            vectors += 1
            tiles += words.tile.match(text) is not None
        elif words.scalar.match(text) or (not loop.inner and words.whole.match(text)):
            scalars += 1
    return vectors, scalars, tiles
