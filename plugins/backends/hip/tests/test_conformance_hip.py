"""The HIP backend against the kit; without a GPU its compiler half alone."""

from __future__ import annotations

from xpu.testing import BackendSuite
from xpu_backend_hip.backend import HipBackend


class TestHip(BackendSuite):
    backend = HipBackend
    target = "gfx1151"
