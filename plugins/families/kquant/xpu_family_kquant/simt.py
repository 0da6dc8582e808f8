"""The designs in the dialect `simt`: their sources and how they are launched.

Sources lie in ``kernels/simt`` and name no vendor; grids follow from a member's shape and the
problem alone. Called by the designs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Final

from xpu.model import Problem
from xpu.spec import KernelSource, Launch

DIALECT: Final = "simt"
GROUP: Final = 16
"""Columns of y that one group of prepared weights holds. Source: ``kernels/simt/stored.h``."""

WIDEST_LOAD_BYTES: Final = 16
"""What activations are aligned to where a kernel reads them as they are given."""

BLOCK_K: Final = 256
_THREADS: Final = 256
_MOST_BLOCKS: Final = 4096
"""Blocks of the repacking kernel: each of its threads takes words in turn."""

_SLOT_BYTES: Final = 3360
"""Shared memory for a block of a group in any format. Source: ``kernels/simt/ring.h``."""

LINES: Final = 2
"""`widen` of a member whose block shares lines of x: ``kernels/simt/tile_lines.h``."""

_LINE_BYTES: Final = 2 * 64
"""A row of x in a panel of 64 k in half. Source: ``kernels/simt/tile_lines.h``."""

_LINE_GAP_BYTES: Final = 2 * 8
"""What lies between two rows there. Source: ``kernels/simt/tile_halves.h``."""

_TABLE_BYTES: Final = (16 + 1) * GROUP * 4
"""The scales of a group's block in any format, and its factors, there."""

_ROW_BYTES: Final = 256 + 4 * 16 + 16 + 16
"""A row of x in a stage, in 8 bits and any format. Source: ``kernels/simt/tile_bytes.h``."""

_SUBS: Final = {"q4_k": 8, "q5_k": 8, "q6_k": 16}
"""Sub-blocks of a block that have a scale of their own."""


@functools.cache
def source(name: str) -> KernelSource:
    """Read one kernel and the headers that any of them may include."""
    folder = resources.files("xpu_family_kquant") / "kernels" / "simt"
    headers = {
        file.name: file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".h")
    }
    return KernelSource(DIALECT, (folder / f"{name}.cpp").read_text("utf-8"), headers)


def record_bytes(weight_format: str) -> int:
    """Return the bytes of a row's block in 8 bits. Source: ``kernels/simt/staged.h``."""
    return BLOCK_K + 4 * _SUBS[weight_format] + 16


def prepare_launch(prepared_bytes: int) -> Launch:
    """Return the launch of ``prepare``: words in turn, as many threads as pays."""
    blocks = min(_MOST_BLOCKS, -(-prepared_bytes // (4 * _THREADS)))
    return Launch(grid=(max(1, blocks), 1, 1), block=(_THREADS, 1, 1))


def tile_launch(member: Mapping[str, int], problem: Problem) -> Launch:
    """Return the launch of ``qgemm_tile``: tiles along n, tiles along m, parts of k.

    Parameters
    ----------
    member
        Its parameters. `splits`, where it is given, is the number of parts of k, taken as at
        most the blocks of k. With more than one every part adds its share to a cleared y.

    A block with lines fills most of a multiprocessor, and one that has to wait for another
    would double the time: their parts are `resident_splits`.
    """
    told = "resident_splits" if member["widen"] == LINES else "splits"
    splits = max(1, min(member.get(told, 1), problem.k // BLOCK_K))
    return Launch(
        grid=(-(-problem.n // member["tile_n"]), -(-problem.m // member["tile_m"]), splits),
        block=(member["threads"], 1, 1),
        dynamic_shared_bytes=_tile_bytes(member),
        clears_result=splits > 1,
    )


def _tile_bytes(member: Mapping[str, int]) -> int:
    """Return the shared memory of a tile: stages of rows of x, and of weights but in halves."""
    rows, weights = member["tile_m"], member["tile_n"] // GROUP * _SLOT_BYTES
    if member["widen"] == LINES:
        panels = member["stages"] * rows * _LINE_BYTES
        # A number for each wave, of which there are no more than groups.
        tables = member["tile_n"] // GROUP * (_TABLE_BYTES + 4)
        return panels + member["slots"] * weights + tables + rows * 4
    if member["widen"]:
        return member["stages"] * rows * (_LINE_BYTES + _LINE_GAP_BYTES)
    return member["stages"] * (rows * _ROW_BYTES + 128 + weights)


def vector_launch(member: Mapping[str, int], problem: Problem, rows: int = 1) -> Launch:
    """Return the launch of a mat-vec: groups of columns, and `rows` rows of x to a block."""
    grid = (-(-problem.n // (GROUP * member["rows"])), -(-problem.m // rows), 1)
    slots = member["threads"] // 32 * (member["prefetch"] + 1) * member["rows"]
    return Launch(
        grid=grid,
        block=(member["threads"], 1, 1),
        dynamic_shared_bytes=slots * _SLOT_BYTES,
        alignment_bytes=WIDEST_LOAD_BYTES if rows == 1 else 1,
    )
