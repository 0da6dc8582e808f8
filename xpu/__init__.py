"""XPU: finds the right shape of a compute kernel on a part that nobody has measured.

Backends, kernel families and probes are plugins; TOML files declare families, rules and
bucket policies; the core knows no vendor. The names below are loaded on first use, so that
``import xpu`` costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xpu.choice import ShapeChoice
    from xpu.errors import XpuBuildError, XpuConfigError, XpuError, XpuLaunchException
    from xpu.filter import ShapeFilter
    from xpu.measure import KernelTimer
    from xpu.model import DeviceFacts, KernelFacts, Problem, ShapeCandidate
    from xpu.orchestrator import Orchestrator
    from xpu.store import Autotune

__version__ = "0.1.0"

__all__ = [
    "Autotune",
    "DeviceFacts",
    "KernelFacts",
    "KernelTimer",
    "Orchestrator",
    "Problem",
    "ShapeCandidate",
    "ShapeChoice",
    "ShapeFilter",
    "XpuBuildError",
    "XpuConfigError",
    "XpuError",
    "XpuLaunchException",
]

_HOMES = {
    "Autotune": "xpu.store",
    "DeviceFacts": "xpu.model",
    "KernelFacts": "xpu.model",
    "KernelTimer": "xpu.measure",
    "Orchestrator": "xpu.orchestrator",
    "Problem": "xpu.model",
    "ShapeCandidate": "xpu.model",
    "ShapeChoice": "xpu.choice",
    "ShapeFilter": "xpu.filter",
    "XpuBuildError": "xpu.errors",
    "XpuConfigError": "xpu.errors",
    "XpuError": "xpu.errors",
    "XpuLaunchException": "xpu.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'xpu' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
