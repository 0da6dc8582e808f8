"""The entry point: what this distribution brings to XPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xpu.spec import Design, hookimpl
from xpu_family_kquant.design import QGemmTile, QMatVec
from xpu_family_kquant.library import QGemmLibrary
from xpu_family_kquant.qmatvec_cols import QMatVecCols

XPU_SPEC_VERSION: Final = 1


@hookimpl
def xpu_designs() -> Iterable[Design]:
    """Bring the products: in tiles, with a vector, with a few rows, and by a library."""
    return (QGemmTile(), QMatVec(), QMatVecCols(), QGemmLibrary())
