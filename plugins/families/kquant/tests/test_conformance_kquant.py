"""The K-quant designs against the kit, on every backend that is installed."""

from __future__ import annotations

from xpu.testing import FamilySuite
from xpu_family_kquant import plugin as kquant


class TestKquant(FamilySuite):
    plugin = kquant
