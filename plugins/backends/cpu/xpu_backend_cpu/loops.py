"""The loops of assembly text: blocks of instructions, the jumps between them, and what turns.

Called by the judge of main loops. It knows no instruction: which ones jump is said to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import attrs

_LABEL: Final = re.compile(r"([\w.$]+):")
_INSTRUCTION: Final = re.compile(r"\s+([a-z][\w.]*)(?:\s+([^#\n]*))?")


@attrs.frozen
class Jumps:
    """What an instruction does to the order: where it may jump, and whether the next follows."""

    to: str | None = None
    falls_through: bool = True


@attrs.define
class Block:
    """Instructions in a row, and the numbers of the blocks that may come next."""

    instructions: list[str] = attrs.field(factory=list)
    after: list[int] = attrs.field(factory=list)


@attrs.frozen
class Loop:
    """A loop: the instructions of its own, without those of loops within it.

    `inner` are the places, in the list of all, of the loops within it.
    """

    instructions: tuple[str, ...]
    inner: tuple[int, ...]


def loops_of(assembly: str, jumps: Callable[[str], Jumps]) -> list[Loop]:
    """Return the loops of assembly text.

    Parameters
    ----------
    jumps
        From an instruction, one space behind its mnemonic, to what it does to the order.
    """
    blocks = _blocks(assembly, jumps)
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
    targets: list[tuple[int, str]] = []
    falls_through = True

    def begin() -> None:
        if falls_through:
            blocks[-1].after.append(len(blocks))
        blocks.append(Block())

    for line in assembly.splitlines():
        if label := _LABEL.match(line):
            begin()
            falls_through = True
            named[label[1]] = len(blocks) - 1
        elif found := _INSTRUCTION.match(line):
            if not falls_through:
                begin()
                falls_through = True
            text = f"{found[1]} {(found[2] or '').strip()}"
            blocks[-1].instructions.append(text)
            order = jumps(text)
            if order.to is not None:
                targets.append((len(blocks) - 1, order.to))
                falls_through = order.falls_through
                begin()
            falls_through = order.falls_through if order.to is None else True
    for at, name in targets:
        if name in named:
            blocks[at].after.append(named[name])
    return blocks


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
