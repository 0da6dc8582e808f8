"""The door of this plugin: what the entry point ``hip`` leads to."""

from __future__ import annotations

from xpu.spec import SPEC_VERSION, Backend, hookimpl
from xpu_backend_hip.backend import HipBackend

XPU_SPEC_VERSION = SPEC_VERSION


@hookimpl
def xpu_backends() -> tuple[Backend, ...]:
    """Return the one backend of this plugin."""
    return (HipBackend(),)
