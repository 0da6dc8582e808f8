"""The probes against the kit."""

from __future__ import annotations

from xpu.testing import ProbeSuite
from xpu_probe_pays.cols import Cols
from xpu_probe_pays.once import MatrixCoresPay, TileBeatsDequant


class TestCols(ProbeSuite):
    probe = Cols
    problems = (
        {"m": 2, "n": 64, "k": 256},
        {"m": 8, "n": 64, "k": 256},
        {"m": 8, "n": 96, "k": 512},
    )


class TestMatrixCoresPay(ProbeSuite):
    probe = MatrixCoresPay


class TestTileBeatsDequant(ProbeSuite):
    probe = TileBeatsDequant
