"""The door of this plugin: what the entry point ``emulator`` leads to."""

from __future__ import annotations

from xpu.spec import SPEC_VERSION, Backend, hookimpl
from xpu_backend_emulator.backend import EmulatorBackend

XPU_SPEC_VERSION = SPEC_VERSION


@hookimpl
def xpu_backends() -> tuple[Backend, ...]:
    """Return the one backend of this plugin."""
    return (EmulatorBackend(),)
