"""The K-quant designs against the kit, on every backend that is installed."""

from __future__ import annotations

from xpu.testing import FamilySuite
from xpu_family_kquant import plugin as kquant


class TestKquant(FamilySuite):
    plugin = kquant
    families = tuple(
        f"q{bits}k_{shape}" for shape in ("tile", "matvec", "cols", "library") for bits in (4, 5, 6)
    )


class TestSixteenBits(FamilySuite):
    """Of families like those, one of each type; the kernels have tests of their own."""

    plugin = kquant
    families = ("q4k_matvec_bf16", "q6k_cols_f16")
