"""The loops of assembly text: blocks of instructions, the jumps between them, and what turns.

What a loop calls in the same text is part of it, as if the compiler had put it there. Called by
the judge of main loops. It knows no instruction: which ones jump, or call, is said to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

import attrs

_LABEL: Final = re.compile(r"([\w.$]+):")
_FUNCTION: Final = re.compile(r"[A-Za-z_]")
"""How the label of a function begins: those within one begin with a point, or are numbers."""
_INSTRUCTION: Final = re.compile(r"\s+([a-z][\w.]*)(?:\s+([^#\n]*))?")
_MOST_BLOCKS: Final = 20_000
"""Where what is called has come to so many blocks, further calls are passed over."""


@attrs.frozen
class Jumps:
    """What an instruction does to the order.

    Attributes
    ----------
    to
        Where it may jump.
    falls_through
        Whether the next one follows.
    calls
        The function that runs before the next one.
    """

    to: str | None = None
    falls_through: bool = True
    calls: str | None = None


@attrs.define
class Block:
    """Instructions in a row, and the numbers of the blocks that may come next.

    `called` is the number of the block at which the function begins that the last one calls.
    """

    instructions: list[str] = attrs.field(factory=list)
    after: list[int] = attrs.field(factory=list)
    called: int | None = None


@attrs.frozen
class Loop:
    """A loop: the instructions of its own, without those of loops within it.

    `inner` are the places, in the list of all, of the loops within it.
    """

    instructions: tuple[str, ...]
    inner: tuple[int, ...]


def loops_of(assembly: str, jumps: Callable[[str], Jumps]) -> list[Loop]:
    """Return the loops of assembly text, with what they call in it.

    Parameters
    ----------
    jumps
        From an instruction, one space behind its mnemonic, to what it does to the order.
    """
    blocks = _with_called(_blocks(assembly, jumps))
    bodies = _bodies(blocks)
    every = list(bodies.values())
    found = []
    for header, body in bodies.items():
        inner = [at for at, other in enumerate(bodies) if other != header and other in body]
        own = body.difference(*(every[at] for at in inner))
        lines = (line for at in sorted(own) for line in blocks[at].instructions)
        found.append(Loop(tuple(lines), tuple(inner)))
    return found


def _blocks(assembly: str, jumps: Callable[[str], Jumps]) -> list[Block]:
    blocks = [Block()]
    named: dict[str, int] = {}
    links: list[tuple[int, Jumps]] = []
    falls_through = True

    def begin() -> None:
        if falls_through:
            blocks[-1].after.append(len(blocks))
        blocks.append(Block())

    for line in assembly.splitlines():
        if label := _LABEL.match(line):
            # What calls a way out stands last in its function.
            falls_through = falls_through and not _FUNCTION.match(label[1])
            begin()
            falls_through = True
            named[label[1]] = len(blocks) - 1
        elif found := _INSTRUCTION.match(line):
            if not falls_through:
                begin()
            text = f"{found[1]} {(found[2] or '').strip()}"
            blocks[-1].instructions.append(text)
            order = jumps(text)
            falls_through = order.falls_through
            if order.to or order.calls:
                links.append((len(blocks) - 1, order))
                begin()
                falls_through = True
    for at, order in links:
        to = named.get(order.to or "")
        blocks[at].after += () if to is None else (to,)
        blocks[at].called = named.get(order.calls or "")
    return blocks


def _with_called(blocks: list[Block]) -> list[Block]:
    """Put a copy of each function in the place of its calls that stand in loops."""
    in_loops = set().union(*_bodies(blocks).values())
    made = [attrs.evolve(block, after=list(block.after)) for block in blocks]
    for at in sorted(in_loops):
        if blocks[at].called is not None:
            _put(blocks, made, at, at, frozenset())
    return made


def _put(
    blocks: list[Block], made: list[Block], at: int, place: int, around: frozenset[int]
) -> Collection[int]:
    """Put what block `at` calls behind its copy `place`; return the blocks that then end it.

    A function that calls itself, of those `around`, stays a call.
    """
    entry, then = blocks[at].called, made[place].after
    if entry is None or entry in around:
        return (place,)
    made[place].instructions = blocks[at].instructions[:-1]
    if len(made) > _MOST_BLOCKS:
        return (place,)
    body = _reached(blocks, entry)
    copies = {old: len(made) + count for count, old in enumerate(body)}
    made += [
        attrs.evolve(blocks[old], after=[copies[to] for to in blocks[old].after]) for old in body
    ]
    made[place].after = [copies[entry]]
    ends: list[int] = []
    for old in body:
        last = _put(blocks, made, old, copies[old], around | {entry})
        ends += () if blocks[old].after else last
    for end in ends:
        made[end].after = list(then)
    return ends


def _reached(blocks: list[Block], entry: int) -> list[int]:
    """Return the blocks of a function, and of those that it ends in."""
    found, waiting = {entry}, [entry]
    while waiting:
        further = set(blocks[waiting.pop()].after) - found
        found |= further
        waiting += further
    return sorted(found)


def _bodies(blocks: list[Block]) -> dict[int, set[int]]:
    """Return the blocks of each loop by the block that it is entered at."""
    before: list[list[int]] = [[] for _ in blocks]
    for at, block in enumerate(blocks):
        for to in block.after:
            before[to].append(at)
    bodies: dict[int, set[int]] = {}
    for last, header in _back_edges(blocks):
        body = bodies.setdefault(header, {header})
        waiting = [last]
        while waiting:
            at = waiting.pop()
            if at not in body:
                body.add(at)
                waiting.extend(before[at])
    return bodies


def _back_edges(blocks: list[Block]) -> Iterator[tuple[int, int]]:
    """Yield the edges that lead back to a block on the way to where they begin."""
    seen: set[int] = set()
    for root in range(len(blocks)):
        if root in seen:
            continue
        path, way = {root}, [(root, iter(blocks[root].after))]
        seen.add(root)
        while way:
            at, rest = way[-1]
            to = next(rest, None)
            if to is None:
                path.discard(at)
                way.pop()
            elif to in path:
                yield at, to
            elif to not in seen:
                seen.add(to)
                path.add(to)
                way.append((to, iter(blocks[to].after)))
