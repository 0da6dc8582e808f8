"""The pages of `kernels_by_target.py` as text: tables of what was made of members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from xpu.filter import Occupancy
from xpu.model import Manifest, MatrixShape, Operation

COLUMNS: Final = {
    "cuda": (
        "target",
        "block",
        "registers",
        "spill B",
        "stack B",
        "static B",
        "dynamic B",
        "tier",
        "operations",
        "resident",
        "limit",
    ),
    "cpu": ("target", "stack B", "tier", "operations"),
}
COLUMNS["hip"] = COLUMNS["cuda"]
INDEX: Final = """# Kernels by target

What the compilers make of every member of every family, for every target that is built for here,
read from the manifests; `python docs/kernels_by_target.py` writes these pages anew. Nothing of it
was measured on a device, and code for AMD's parts has not run on AMD silicon.

{pages}

Of a part whose facts are in `tests/vectors/devices.toml` the tables say how many blocks a
multiprocessor holds ("resident") and what allows no more ("limit"), by the expression of rule R4,
or the rule that prunes the member there, with what it needs and the limit. For one kernel and a
part of your own: `xpu manifest show KERNEL@TARGET --facts FILE`.

| target | part |
|---|---|
{parts}

## One source, two parts

An RTX 4090 and a Radeon 8060S serve problems of {problem} with different members of one family,
from one source: by their facts and the code that was built for them. Nothing in the library knows
either part. The second has 64 KiB of shared memory for a block, where the first gives 99 to those
who ask.

{pairs}
"""
HEAD: Final = """# Kernels for {targets}

Compiled by {compilers}. "static B" and "dynamic B" are the shared memory of a block, spills and
stack those of a thread, in bytes. "tier" is that of each cooperative matrix of the source (native,
software, or demoted with others that are software), else of the dot products. "operations" are the
matrix and dot instructions of the generated code. What is resident and what limits it is of one
part for each target: [which, and what the columns mean](README.md).
"""
HOST: Final = """# Kernels for the processor, target {targets}

Compiled by {compilers}. The stack is the largest frame, in bytes. A processor has no registers that
blocks share, and the compiler counts no spilled bytes. "operations" are the matrix and dot
instructions of the generated code.
"""


@attrs.frozen
class Line:
    """One member for one target: what was made of it, and what a part's facts say of that."""

    family: str
    member: str
    target: str
    manifest: Manifest | None
    dynamic_shared_bytes: int | None
    said: Occupancy | None
    error: str = ""


def cells(line: Line, columns: Sequence[str]) -> Sequence[str]:
    """Return the cells of a line, the member's name first."""
    if line.manifest is None:
        return (line.member, line.target, f"fails: {line.error[:60]}", *[""] * (len(columns) - 2))
    kernel, operations = line.manifest.footprint, line.manifest.operations
    values = {
        "target": line.target,
        "block": kernel.pinned_block,
        "registers": kernel.registers,
        "spill B": kernel.spill_bytes,
        "stack B": kernel.stack_bytes,
        "static B": kernel.static_shared_bytes,
        "dynamic B": line.dynamic_shared_bytes or 0,
        "tier": tiers(operations),
        "operations": ", ".join(short(each) for each in operations if not is_shape(each)) or "-",
        "resident": None if line.said is None else line.said.resident_groups,
        "limit": "" if line.said is None else limit(line.said),
    }
    return (line.member, *(_cell(values[name]) for name in columns))


def is_shape(operation: Operation) -> bool:
    """Whether it is a cooperative matrix of the source, with its tier, and no instruction."""
    return "->" in operation.instruction


def tiers(operations: Sequence[Operation]) -> str:
    """Write the tier of each cooperative matrix in a table's cell; else that of instructions."""
    found: dict[str, list[str]] = {}
    for each in filter(is_shape, operations):
        shape = MatrixShape.from_text(each.instruction)
        found.setdefault(each.tier, []).append(f"{shape.element} {shape.m}x{shape.n}x{shape.k}")
    if not found:
        return ", ".join(sorted({each.tier for each in operations})) or "-"
    return "; ".join(f"{name}: {', '.join(shapes)}" for name, shapes in found.items())


def short(operation: Operation) -> str:
    """Write an operation in a table's cell, PTX without what is the same in all."""
    name, *more = operation.instruction.split(".")
    if name == "mma":
        shape = next((word for word in more if word.startswith("m")), "")
        return f"mma {shape} {more[-2]}"
    return name if name.startswith("dp") else operation.instruction


def limit(said: Occupancy) -> str:
    """Write what limits a member's blocks, or the rule that prunes it."""
    if said.pruned:
        rule, _, figures = said.pruned.partition(" (")
        need, _, most = figures.partition(": needs ")[2].partition(", limit ")
        return f"{rule}: {need} > {most}"
    names = {name.partition("_per_")[0].removeprefix("max_") for name in said.limiters}
    return ", ".join(sorted(names))


def _cell(value: object) -> str:
    return "?" if value is None else str(value)


def page(backend: str, targets: Sequence[str], found: Sequence[Line]) -> str:
    """Return the text of a backend's page."""
    columns, head = COLUMNS[backend], HOST if backend == "cpu" else HEAD
    compilers = sorted({line.manifest.compiler for line in found if line.manifest is not None})
    text = [head.format(targets=", ".join(targets), compilers=", ".join(compilers))]
    by_family: dict[str, list[Line]] = {}
    for line in found:
        by_family.setdefault(line.family, []).append(line)
    for family, own in by_family.items():
        members = len({line.member for line in own})
        text.append(f"<details><summary>{family}: {members} members</summary>\n")
        text += table(("member", *columns), (cells(line, columns) for line in own))
        text.append("\n</details>\n")
    return "\n".join(text).rstrip() + "\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
