"""The steps of one function in LLVM's intermediate text, for compiler halves that are built on it.

Source: LLVM Language Reference Manual, for the forms of instructions and intrinsics.
"""

from __future__ import annotations

import re
from typing import Final

from xpu.spec.accesses import PRIVATE, Step, derive_modes

_VALUE: Final = r'%(?:[\w$.-]+|"[^"]*")'
_VALUES: Final = re.compile(_VALUE)
_POINTERS: Final = re.compile(
    rf"\bptr(?: addrspace\(\d+\))?(?: [a-z_]+(?:\([^)]*\)| \d+)?)* ({_VALUE})"
)
_INSTRUCTION: Final = re.compile(rf"\s+(?:({_VALUE}) = )?((?:(?:must|no)?tail )?[a-z_]+)\b(.*)")
_OF_A_THREAD: Final = re.compile(r"\bptr addrspace\(5\)")
"""Where targets with memories of several kinds have that of a thread. Source: LLVM, User Guide
for AMDGPU Backend, address spaces; a target without any stores addresses in none of them."""
_ANYWHERE: Final = re.compile(r"\bptr (?!addrspace)")
_INTRINSIC: Final = re.compile(r"@llvm\.([\w.]+)\(")
_TRANSFERS: Final = ("memcpy.", "memmove.")
_TOUCHES_NOTHING: Final = (
    *("assume", "lifetime.", "prefetch", "dbg.", "invariant.", "experimental.noalias."),
)
_PLAIN: Final = frozenset({"icmp", "fcmp", "br", "switch", "ret", "unreachable", "fence"})
"""What makes no address, and touches no memory."""
_OF_NUMBERS: Final = re.compile(
    r"(?:abs|bitreverse|bswap|ct(?:pop|lz|tz)|expect|fsh[lr]|[su](?:max|min|cmp)|ptrmask"
    r"|[su](?:add|sub|mul|shl)|vector|fabs|copysign|canonicalize|fma|fmuladd|sqrt|powi?"
    r"|exp\d*|log\d*|sin|cos|floor|ceil|trunc|rint|round\w*|nearbyint|(?:max|min)\w+|ldexp"
    r"|\w+\.(?:readfirstlane|readlane|writelane|ds\.b?permute|ds\.swizzle|permlane\w+"
    r"|(?:mov|update)\.dpp|perm|align\w+|mbcnt|mul|[suf]dot\w*|sudot\w*|s?mfma\w*|s?wmma\w*"
    r"|swmmac|cvt|fmed3|rcp|rsq))(?:\.|$)"
)
"""Intrinsics that touch no memory: an address in what they take goes into what they make, or
nowhere. Of any other one, what it takes is lost, be it called a pointer or not."""


def buffer_modes(text: str, function: str, count: int) -> tuple[str | None, ...]:
    """Return how a function uses its first `count` parameters, buffers, as `derive_modes` says.

    None for one that is not passed as a pointer of its own.

    Parameters
    ----------
    text
        The module or the function alone, optimised.
    """
    head = re.search(
        rf"^define [^\n]*@\"?{re.escape(function)}\"?\(([^\n]*)\{{\n", text, re.MULTILINE
    )
    if head is None:
        return (None,) * count
    body = text[head.end() :].partition("\n}")[0]
    steps = [step for line in body.splitlines() if (step := _step(line)) is not None]
    parameters = _parameters(head[1])[:count]
    modes = derive_modes([(name,) if name else () for name in parameters], steps)
    known = [mode if name else None for name, mode in zip(parameters, modes, strict=True)]
    return (*known, *(None,) * (count - len(known)))


def _parameters(text: str) -> list[str]:
    """Return the name of each parameter that is a pointer; the empty text for another one."""
    depth, start, parts = 0, 0, []
    for at, sign in enumerate(text):
        depth += (sign in "([{<") - (sign in ")]}>")
        if depth < 0 or (sign == "," and depth == 0):
            parts.append(text[start:at])
            start = at + 1
            if depth < 0:
                break
    found = [_POINTERS.search(part) for part in parts]
    return [match[1] if match else "" for match in found]


def _step(line: str) -> Step | None:
    match = _INSTRUCTION.match(line)
    if match is None:
        # A label on the way to another block is none of the numbers; a note for debuggers is none.
        lost = () if re.match(r"\S|\s*[;#]|.*\blabel %", line) else _values(line)
        return Step(escapes=(*lost, PRIVATE)) if lost else None
    made, name, rest = match[1], match[2].split()[-1], match[3].partition(", !")[0]
    makes = () if made is None else (made,)
    if name in _PLAIN:
        return None
    if name in ("call", "invoke", "callbr"):
        return _call(makes, rest)
    if name in ("va_arg", "resume"):
        return Step(escapes=_values(rest))
    if name not in ("load", "store", "atomicrmw", "cmpxchg"):
        return Step(makes, _values(rest))
    if name == "load":  # what is loaded of other memory is no address: one stored there is lost
        is_own = _OF_A_THREAD.search(rest) or _ANYWHERE.search(rest)
        return Step(makes, (PRIVATE,) if is_own else (), reads=_values(rest))
    # A value that is stored stands before the place, one that is exchanged behind it.
    first, _, last = rest.rpartition(", ptr") if name == "store" else rest.partition(", ")[::-1]
    place, stored = _values(last), _values(first)
    if name == "store" and last.startswith(" addrspace(5)"):
        return Step((PRIVATE,), stored, writes=place)
    return Step(reads=() if name == "store" else place, writes=place, escapes=stored)


def _values(text: str) -> tuple[str, ...]:
    return tuple(_VALUES.findall(text))


def _call(makes: tuple[str, ...], rest: str) -> Step:
    values = _values(rest)
    intrinsic = _INTRINSIC.search(rest)
    if intrinsic is None:
        return Step(escapes=(*values, PRIVATE))
    if intrinsic[1].startswith(_TOUCHES_NOTHING):
        return Step()
    pointers = tuple(_POINTERS.findall(rest))
    if intrinsic[1].startswith(_TRANSFERS) and len(pointers) == 2:
        to, source = intrinsic[1].split(".")[1:3]
        is_lost = source in ("p0", "p5") and to != "p5"
        return Step(reads=pointers[1:], writes=pointers[:1], escapes=(PRIVATE,) if is_lost else ())
    if intrinsic[1].startswith("memset.") and len(pointers) == 1:
        return Step(writes=pointers)
    if _OF_NUMBERS.match(intrinsic[1]):
        return Step(makes, values)
    return Step(escapes=values)
