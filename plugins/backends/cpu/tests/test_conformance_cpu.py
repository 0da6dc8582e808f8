"""The CPU backend against the kit."""

from __future__ import annotations

from xpu.testing import BackendSuite
from xpu_backend_cpu.backend import CpuBackend


class TestCpu(BackendSuite):
    backend = CpuBackend
