"""The kit's suite, at both widths of a wave."""

from __future__ import annotations

from xpu.testing import BackendSuite
from xpu_backend_emulator.backend import EmulatorBackend


class TestWave32(BackendSuite):
    backend = EmulatorBackend
    environment = {"XPU_EMULATOR_WAVE": "32"}  # noqa: RUF012 - the suite reads it, nobody writes


class TestWave64(BackendSuite):
    backend = EmulatorBackend
    environment = {"XPU_EMULATOR_WAVE": "64"}  # noqa: RUF012 - the suite reads it, nobody writes
