"""The HIP backend against the kit: its compiler half, and that it says that there is no other."""

from __future__ import annotations

from xpu.testing import BackendSuite
from xpu_backend_hip.backend import HipBackend


class TestHip(BackendSuite):
    backend = HipBackend
    target = "gfx1151"
