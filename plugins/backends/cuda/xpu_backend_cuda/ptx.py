"""What is read of a kernel's PTX: its matrix and dot operations, and how it uses its buffers.

PTX is what the compiler hands to its own assembler in the same run, so that it costs nothing;
and it is documented, which the encoding of a CUBIN is not. The assembler makes of these
operations the part's own, one each (the tests hold that against a disassembler), and adds no
access to memory of a caller.

Source: PTX ISA, for the forms of statements and the names of instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from xpu.model import Operation
from xpu.spec import PRIVATE, Step, derive_modes

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT: Final = re.compile(
    r"\s*(?:@\s*!?\s*%?[\w$]+\s+)?([a-z]\w*(?:[.:]+\w+)*)\s*(.*)", re.DOTALL
)
_BEFORE: Final = re.compile(
    r"(?:\s|[{}]|[$\w]+\s*:(?!:)|\.loc(?:\s+\d+){3}(?:\s*,\s*function_name\s+[$\w]+(?:\s*\+\s*\d+)?)?"
    r"(?:\s*,\s*inlined_at(?:\s+\d+){3})?)+"
)
"""What may stand before an instruction: a block's ends, labels, and places of the source."""
_DECLARED: Final = re.compile(
    r"\.(?:reg|param|shared|local|const|global|align|pragma|branchtargets|calltargets"
    r"|callprototype)\b"
)
_NATIVE: Final = re.compile(r"(?:mma|wmma\.mma|wgmma\.mma_async|tcgen05\.mma|dp[24]a)\b")
_PLACE: Final = re.compile(r"\[([^\]]*)\]")
_NO_ACCESS: Final = frozenset({"setp", "isspacep", "bar", "barrier", "prefetch", "prefetchu"})
"""What takes addresses and neither touches memory behind them nor hands them on."""


@attrs.frozen
class _Operands:
    """Names of the first operand outside of brackets, of the others there, and in each bracket."""

    first: tuple[str, ...]
    others: tuple[str, ...]
    places: list[tuple[str, ...]]


def native_operations(text: str) -> tuple[Operation, ...]:
    """Name each matrix and dot operation of a program once, in alphabetic order."""
    found = Counter(
        opcode for opcode, _ in _statements(_COMMENT.sub("", text)) if _NATIVE.match(opcode)
    )
    return tuple(Operation(name, places=found[name]) for name in sorted(found))


def buffer_modes(text: str, entry: str, count: int) -> tuple[str | None, ...]:
    """Return how a kernel uses its first `count` parameters, buffers, as `derive_modes` says."""
    text = _COMMENT.sub("", text)
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", text, re.DOTALL)
    if head is None:
        return ()
    names = re.findall(r"(\w+)\s*(?:\[\d+\])?\s*(?:,|$)", head[1].strip())
    steps = [_step(opcode, rest) for opcode, rest in _statements(_body(text, head.end()))]
    return derive_modes([(name,) for name in names[:count]], steps)


def _body(text: str, start: int) -> str:
    """Return what stands between the next pair of braces."""
    depth = 0
    begin = text.find("{", start)
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[begin + 1 : begin + brace.start()]
    return text[begin + 1 :]


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield opcode and operands of each instruction.

    A declaration has none. What is not understood has no opcode, and may be anything.
    """
    for part in text.split(";"):
        before = _BEFORE.match(part)
        piece = part[before.end() :] if before else part
        match = _STATEMENT.fullmatch(piece)
        if match is not None:
            yield match[1], match[2]
        elif piece and not _DECLARED.match(piece):
            yield "", piece


def _step(opcode: str, rest: str) -> Step:
    family = opcode.partition(".")[0]
    if opcode.startswith("ld.param") and (place := _PLACE.search(rest)):
        return Step(makes=_names(rest[: place.start()]), uses=_names(place[1]))
    operands = _split(rest)
    known = _atomic if opcode.startswith("cp.reduce") else _WITH_MEMORY.get(family)
    if known is not None:
        return known(opcode, operands)
    if family in _NO_ACCESS:
        return Step()
    # The address of a parameter that is taken leads to it by any load.
    if operands.places or family in ("call", "") or opcode.startswith("cvta.param"):
        return Step(escapes=(*_names(rest), PRIVATE))
    return Step(operands.first, operands.others)


def _load(opcode: str, operands: _Operands) -> Step:
    # What is loaded of other memory is no address: one that was stored there is lost.
    is_own = opcode.split(".")[1] not in ("global", "shared", "const")
    return Step(operands.first, (PRIVATE,) if is_own else (), reads=_all(operands.places))


def _store(opcode: str, operands: _Operands) -> Step:
    if opcode.startswith("st.local"):
        return Step((PRIVATE,), operands.others, writes=_all(operands.places))
    return Step(writes=_all(operands.places), escapes=operands.others)


def _atomic(_: str, operands: _Operands) -> Step:
    places = _all(operands.places)
    return Step(reads=places, writes=places, escapes=operands.others)


def _copy(_: str, operands: _Operands) -> Step:
    """Read a copy's target, its source, and a barrier perhaps, which it arrives at."""
    places = operands.places
    if len(places) < 2:
        return Step(escapes=_all(places))  # a group's end has none
    return Step(reads=_all(places[1:]), writes=(*places[0], *_all(places[2:])))


_WITH_MEMORY: Final[Mapping[str, Callable[[str, _Operands], Step]]] = {
    **dict.fromkeys(("ld", "ldu", "ldmatrix", "tex"), _load),
    **dict.fromkeys(("st", "stmatrix"), _store),
    **dict.fromkeys(("atom", "red"), _atomic),
    "cp": _copy,
}


def _split(rest: str) -> _Operands:
    match = re.match(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,]*)", rest)
    end = match.end() if match else 0
    first = rest[:end]
    return _Operands(
        () if "[" in first else _names(first),
        _names(_PLACE.sub("", rest[end:])),
        [_names(place) for place in _PLACE.findall(rest)],
    )


def _all(places: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for place in places for name in place)


def _names(text: str) -> tuple[str, ...]:
    """Return registers and symbols: a parameter's own address is one.

    Registers that a source declares in assembly of its own need not begin with a %.
    """
    return tuple(re.findall(r"%?[A-Za-z_$][\w$]*", text))
