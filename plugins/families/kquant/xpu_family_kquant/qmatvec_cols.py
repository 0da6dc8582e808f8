"""The design for a few rows in one launch: batched decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import Constant, Problem
from xpu.spec import KernelSource, Launch, Preparation
from xpu_family_kquant import simt
from xpu_family_kquant.design import QMatVec
from xpu_family_kquant.staging import StagedBytes

MOST_ROWS: Final = 16
"""Rows of x beyond which tiles are the better design."""


class QMatVecCols(QMatVec):
    """Product with up to sixteen rows of x: ``kernels/simt/qmatvec_cols.cpp``.

    Parameters of a member: `cols` rows of x that share a weight once it is read (8 or 16), `rows`
    groups of 16 weight rows side by side, `prefetch` blocks of weights on their way while one is
    multiplied, `threads` of a block.
    """

    name = "qmatvec_cols"
    parameters = ("cols", "rows", "prefetch", "threads")

    def dialects(self) -> tuple[str, ...]:
        """Name the one dialect that it has a source for."""
        return (simt.DIALECT,)

    def source(self, dialect: str) -> KernelSource:
        """Return the kernel and its headers."""
        if dialect != simt.DIALECT:
            raise XpuConfigError(
                f"design {self.name!r} has no source in dialect {dialect!r}, only in "
                f"{simt.DIALECT!r}"
            )
        return simt.source(self.name)

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Accept one to sixteen rows, any n, and every positive multiple of the block as k."""
        if not 1 <= problem.m <= MOST_ROWS:
            return f"m = {problem.m} is not within 1 to {MOST_ROWS}"
        return super().check_problem(problem, constants)

    def staging(self, dialect: str, member: Mapping[str, int]) -> Sequence[Preparation]:
        """Return what brings x to 8 bits."""
        return (StagedBytes(),)

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return grid and block of a member."""
        return simt.vector_launch(member, problem, member["cols"])
