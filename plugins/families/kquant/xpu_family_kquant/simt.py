"""The designs in the dialect `simt`: their sources and how they are launched.

Sources lie in ``kernels/simt`` and name no vendor; grids follow from a member's shape and the
problem alone. Called by the designs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from xpu.model import Problem
from xpu.spec import KernelSource, Launch

DIALECT: Final = "simt"
GROUP: Final = 16
"""Columns of y that one group of prepared weights holds. Source: ``kernels/simt/stored.h``."""

_BLOCK_K: Final = 256
_LINE_PADDING_BYTES: Final = 16
"""What a panel's line has beyond its data. Source: ``kernels/simt/panels.h``."""


def source(name: str) -> KernelSource:
    """Read one kernel and the headers that any of them may include."""
    folder = resources.files("xpu_family_kquant") / "kernels" / "simt"
    headers = {
        file.name: file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".h")
    }
    return KernelSource(DIALECT, (folder / f"{name}.cpp").read_text("utf-8"), headers)


def tile_launch(member: Mapping[str, int], problem: Problem) -> Launch:
    """Return the launch of ``qgemm_tile``: tiles along n, tiles along m, parts of k.

    Parameters
    ----------
    member
        Its parameters. `splits`, where it is given, is the number of parts of k, taken as at
        most the blocks of k. With more than one, y has to be zero before the launch: every part
        adds its share.
    """
    line_bytes = member["tile_k"] * (member["widen"] + 1) + _LINE_PADDING_BYTES
    return Launch(
        grid=(
            -(-problem.n // member["tile_n"]),
            -(-problem.m // member["tile_m"]),
            max(1, min(member.get("splits", 1), problem.k // _BLOCK_K)),
        ),
        block=(member["threads"], 1, 1),
        dynamic_shared_bytes=(member["tile_m"] + member["tile_n"]) * line_bytes,
    )


def vector_launch(member: Mapping[str, int], problem: Problem, rows: int = 1) -> Launch:
    """Return the launch of a mat-vec: groups of columns, and `rows` rows of x to a block."""
    grid = (-(-problem.n // (GROUP * member["rows"])), -(-problem.m // rows), 1)
    return Launch(grid=grid, block=(member["threads"], 1, 1))
