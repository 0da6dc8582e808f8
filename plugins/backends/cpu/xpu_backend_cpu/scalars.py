"""What a loop does to data number by number, and how much to vectors, from its assembly text.

Numbers are counted where they are data: what is loaded, what is made of it, and what is stored.
What counts turns or makes an address is none. Called by the judge of main loops.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

_CALL_WORK: Final = 16
"""What a call counts for: no function of a number is shorter."""
_PIECES: Final = re.compile(r"(?:[^,(\[]|\([^)]*\)?|\[[^\]]*\]?)+")
"""Operands; of the last one the end may be cut off where it is written like a comment."""
_NO_NUMBERS: Final = re.compile(r"mem(?:cpy|set|move|cmp)|_ZGV|abort|__assert|__stack_chk")
"""Functions on memory, those of numbers in vectors by their names, and ways out.
Source: Vector Function ABI of x86-64 and of AArch64, for the names."""


@attrs.frozen
class _Forms:
    """How instructions of a set are written.

    `result` is the place of the operand that is written; `own` is memory of the function itself,
    or of constants; `address` makes an address without memory.
    """

    result: int
    register: re.Pattern[str]
    memory: str
    own: re.Pattern[str]
    move: re.Pattern[str]
    store: re.Pattern[str]
    address: re.Pattern[str]
    arithmetic: re.Pattern[str]
    float_register: re.Pattern[str]
    packed: re.Pattern[str]
    call: re.Pattern[str]


# Source: Intel SDM volume 2, in AT&T syntax. Of 16 bytes, moves between registers, logic and the
# last letters s and d are of a single number, too.
_X86: Final = _Forms(
    result=-1,
    register=re.compile(r"%(?:r(\d+)[dwb]?|[re]?([abcd])[xhl]|[re]?([sd]i|bp|sp)l?)\b"),
    memory="(",
    own=re.compile(r"\(%[re]sp\b|^-\w+\(%rbp\)|\(%rip\)"),
    move=re.compile(r"(?:mov\w*|cltq|cwtl) "),
    store=re.compile(r"v?(?:mov\w*|p?extr\w+) "),
    address=re.compile(r"lea\w? "),
    arithmetic=re.compile(
        r"(?:ad[dc]|sub|sbb|andn?|or|xor|not|neg|i?mul|i?div|s[ha][lr]x?|ro[lr]x?|inc|dec|popcnt"
        r"|[lt]zcnt|bs[fr]|bswap|bextr|bls\w|bzhi|pdep|pext|crc32|cmov[a-z]+?)[bwlq]? "
    ),
    float_register=re.compile(r"%[xyz]mm"),
    packed=re.compile(
        r".*%[yzt]mm|(?!(?!v?p)\w+s[sdh] |v?mov[dq] |v?cvt\w*s[sdhi]2|v?mov\w+ %xmm\w+, *%xmm\w+$"
        r"|v?(?:andn?|or|xor)p[sd] |v?pxor\w* (%xmm\w+), *\1\b).*%xmm"
    ),
    call=re.compile(r"callq? ([\w.$]+)"),
)
# Source: Arm ARM, A64.
_ARM: Final = _Forms(
    result=0,
    register=re.compile(r"\b[wx](\d+)\b"),
    memory="[",
    own=re.compile(r"\[(?:sp|x29)\b"),
    move=re.compile(r"(?:mov|ldu?r\w*|ldp\w*|[us]xt[bhw]|f?mov|fcvt\w+) "),
    store=re.compile(r"st(?:u?r|p)\w* "),
    address=re.compile(r"adrp? "),
    arithmetic=re.compile(
        r"(?:adds?|subs?|ands?|bics?|or[rn]|eo[rn]|mvn|negs?|m(?:ul|add|sub|neg)|[us]m(?:ull|addl)"
        r"|[us]div|[al]s[lr]v?|ror|cl[sz]|rbit|rev\w*|cnt|[us]?bf(?:x|iz?|xil)|cse[lt]\w*"
        r"|cs(?:inc|inv|neg)) "
    ),
    float_register=re.compile(r"\b[bhsdqv]\d+\b"),
    packed=re.compile(r".*(?:\bv\d+\.\d+[bhsd]|\bz\d+\.|\bq\d+\b|\bza\d)"),
    call=re.compile(r"bl ([\w.$]+)"),
)
_SETS: Final = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


@attrs.frozen
class _Parts:
    """An instruction taken apart: registers of what is read, and what is written."""

    text: str
    taken: frozenset[str]
    made: str | None
    has_data: bool
    """Whether it takes from memory that is not the function's own, or writes there."""
    writes_memory: bool


def packed_instructions(instructions: Iterable[str], machine: str | None = None) -> int:
    """Count the instructions on whole vectors or matrices, moves to and from memory included."""
    forms = _SETS[(machine or platform.machine()).lower()]
    return sum(forms.packed.match(text) is not None for text in instructions)


def called(instruction: str, machine: str | None = None) -> str | None:
    """Return the function that an instruction calls; None where it calls none by name."""
    found = _SETS[(machine or platform.machine()).lower()].call.match(instruction)
    return None if found is None else found[1]


def scalar_work(instructions: Iterable[str], machine: str | None = None) -> int:
    """Weigh what is done to single numbers: arithmetic on whole ones, stores, and calls.

    Arithmetic of floats is not counted here. What a call of a function in the same text does
    stands among the instructions, in the place of the call.

    Parameters
    ----------
    machine
        Name of the architecture, as of `platform.machine`; this machine's when None.
    """
    forms = _SETS[(machine or platform.machine()).lower()]
    texts = [text for text in instructions if not forms.packed.match(text)]
    parts = [_parts(forms, text) for text in texts]
    addresses = _addresses(forms, texts, parts)
    data: set[str] = set()
    work = 0
    for _ in range(2):  # what a turn leaves is data of the next one
        work = sum(_weight(forms, each, data, addresses) for each in parts)
    calls = [found[1] for text in texts if (found := forms.call.match(text))]
    return work + _CALL_WORK * sum(not _NO_NUMBERS.match(name) for name in calls)


def _weight(forms: _Forms, each: _Parts, data: set[str], addresses: set[str]) -> int:
    """Return 1 where data is calculated or stored; add what is data from here on."""
    is_float = forms.float_register.search(each.text) is not None
    is_data = each.has_data or is_float or bool(each.taken & data)
    if forms.store.match(each.text) and each.writes_memory:
        return int(each.has_data and (is_float or bool(each.taken & data)))
    is_arithmetic = forms.arithmetic.match(each.text) is not None and not is_float
    if each.made is None:
        return int(is_arithmetic and each.writes_memory and each.has_data)
    if not is_data or not (is_arithmetic or is_float or forms.move.match(each.text)):
        return 0
    data.add(each.made)
    return int(is_arithmetic and each.made not in addresses)


def _parts(forms: _Forms, text: str) -> _Parts:
    operands = [each.strip() for each in _PIECES.findall(text.partition(" ")[2])]
    is_store = forms.result == 0 and forms.store.match(text) is not None
    places = [each for each in operands if forms.memory in each]
    written = "" if is_store or not operands else operands[forms.result]
    made = None if written in places else next(_registers(forms, written), None)
    read = [each for each in operands if each not in places]
    taken = {name for each in read for name in _registers(forms, each)}
    if forms.result == 0 and not is_store and made is not None:
        # Three operands: the first is written and not read, unless it stands again.
        taken = {name for each in read[1:] for name in _registers(forms, each)}
    elif operands and len(operands) == 2 and operands[0] == operands[1]:
        taken = set()  # the way to make a zero
    has_data = any(not forms.own.search(place) for place in places)
    is_place = forms.address.match(text) is not None
    return _Parts(
        text,
        frozenset(taken),
        made,
        has_data and not is_place,
        is_store or (bool(written) and written in places),
    )


def _registers(forms: _Forms, text: str) -> Iterator[str]:
    for found in forms.register.finditer(text):
        yield next(filter(None, found.groups()))


def _addresses(forms: _Forms, texts: list[str], parts: list[_Parts]) -> set[str]:
    """Return the registers that hold an address, or go into one."""
    found = {
        name
        for text in texts
        for each in _PIECES.findall(text.partition(" ")[2])
        if forms.memory in each
        for name in _registers(forms, each)
    }
    while True:
        more = {name for each in parts if each.made in found for name in each.taken} - found
        if not more:
            return found
        found |= more
