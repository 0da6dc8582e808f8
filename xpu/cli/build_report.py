"""What ``xpu build`` says: a row for each kernel, by target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from xpu.cli.output import print_table
from xpu.errors import XpuBuildError
from xpu.model import PREPARATION

if TYPE_CHECKING:
    from xpu.adaptor import Built, Called
    from xpu.building import FamilyBuild

Row = dict[str, Any]

_COLUMNS: Final = {
    "family": "family",
    "member": "member",
    "status": "status",
    "registers": "registers",
    "spill_bytes": "spill B",
    "static_shared_bytes": "shared B",
    "stack_bytes": "stack B",
    "tier": "matrices",
    "operations": "operations",
    "code": "code",
}
"""Heads of the table, by the keys of a row."""


def rows_of(builds: Sequence[FamilyBuild]) -> list[Row]:
    """Return a row for each member, and for what runs before it, once for each target."""
    shown: set[tuple[str, str]] = set()
    return [row for build in builds for row in _rows(build, shown)]


def failures(builds: Sequence[FamilyBuild]) -> list[str]:
    """Return what fails the build: a line for each finding that nothing tracks."""
    return [str(one) for build in builds for one in build.findings if not one.item]


def print_gates(builds: Sequence[FamilyBuild]) -> None:
    """Print what the gates found, tracked or not; nothing where they found nothing."""
    cells = [
        [one.gate, one.kernel, one.target, one.figure, one.item or "nothing"]
        for build in builds
        for one in build.findings
    ]
    if cells:
        print_table("Gates", ["gate", "kernel", "target", "figure", "tracked by"], cells)


def print_builds(rows: Sequence[Row]) -> None:
    """Print a table for each target."""
    by_target: dict[str, list[Row]] = {}
    for row in rows:
        by_target.setdefault(row["target"], []).append(row)
    for target, own in by_target.items():
        cells = [{"status": "failed", **row, "code": row.get("code_hash", "")[:12]} for row in own]
        print_table(
            f"Target {target}",
            list(_COLUMNS.values()),
            [[row.get(key) for key in _COLUMNS] for row in cells],
        )


def _rows(build: FamilyBuild, shown: set[tuple[str, str]]) -> Iterator[Row]:
    """Yield the rows of one family; `shown` are kernels that a row of the target has shown."""
    family, target = build.family, build.target.name
    head: Row = {"family": family.name, "member": "", "target": target, "error": "", "gates": []}
    for name, result in build.members.items():
        row = {**head, "member": name, **_gates(build, name)}
        if isinstance(result, XpuBuildError):
            yield {"status": "tracked", **row} if not row["error"] else row
            continue
        yield {**row, **_member_figures(result)}
        for one in result.staging:
            yield from _once(head, one, target, shown)
    preparation, found = build.preparation, _gates(build, PREPARATION)
    if isinstance(preparation, XpuBuildError):
        yield {**head, "member": PREPARATION, **found}
    elif preparation is not None:
        # Families share it, and a finding is each one's own.
        yield from _once({**head, **found}, preparation, target, set() if found else shown)
    for verdict in build.pruned:
        why = f"pruned by {verdict.rule} {verdict.title}: {verdict.need} > {verdict.limit}"
        yield {**head, "member": verdict.candidate.name, "status": why}
    for name in build.capped:
        yield {**head, "member": name, "status": f"capped at {family.cap}"}
    if stale := _gates(build, ""):
        yield {**head, **stale, "status": "stale"}


def _gates(build: FamilyBuild, member: str) -> Row:
    """Return what the gates found of a member, as part of its row; empty where they did not."""
    found = [one for one in build.findings if one.member == member]
    if not found:
        return {}
    failing = [str(one) for one in found if not one.item]
    kept = ("gate", "kernel", "backend", "figure", "declaration", "item")
    return {
        "error": "; ".join(failing),
        "gates": [{name: getattr(one, name) for name in kept} for one in found],
    }


def _once(head: Row, built: Built, target: str, shown: set[tuple[str, str]]) -> Iterator[Row]:
    """Yield the row of a kernel that members share; none where it was shown before."""
    if (target, built.code_hash) not in shown:
        shown.add((target, built.code_hash))
        name = built.kernel.removeprefix(f"{head['family']}.")
        yield {**head, "member": name, **_figures(built)}


def _member_figures(result: Built | Called) -> Row:
    from xpu.adaptor import Built

    if isinstance(result, Built):
        return _figures(result)
    # Whoever builds for another machine need not have the library that is called there.
    return {"status": f"calls {result.entry}", "library": result.library, "note": result.missing}


def _figures(built: Built) -> Row:
    facts, operations = built.manifest.footprint, built.manifest.operations
    return {
        "status": "cached" if built.was_cached else "built",
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "static_shared_bytes": facts.static_shared_bytes,
        "stack_bytes": facts.stack_bytes,
        "tier": built.manifest.tier,
        "matrices": {each.instruction: each.tier for each in operations if each.is_shape},
        "operations": [each.instruction for each in operations if not each.is_shape],
        "code_hash": built.manifest.code_hash,
        "compiler": built.manifest.compiler,
    }
