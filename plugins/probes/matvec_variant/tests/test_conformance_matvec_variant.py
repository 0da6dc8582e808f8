"""The probe against the kit."""

from __future__ import annotations

from xpu.testing import ProbeSuite
from xpu_probe_matvec_variant.probe import MatvecVariant


class TestMatvecVariant(ProbeSuite):
    probe = MatvecVariant
