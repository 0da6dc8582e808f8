"""The probe against the kit."""

from __future__ import annotations

from xpu.testing import ProbeSuite
from xpu_probe_tile_prewarm.probe import TilePrewarm


class TestTilePrewarm(ProbeSuite):
    probe = TilePrewarm
