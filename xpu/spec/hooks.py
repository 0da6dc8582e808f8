"""The hooks that a plugin may implement, and the markers for both sides.

A plugin is a module (or object) reached through the entry-point group ``xpu``. It may
state ``XPU_SPEC_VERSION = 1``; one that states another version is set aside as
``incompatible``. Hooks are called one plugin at a time by the registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from xpu.spec.backend import Backend
    from xpu.spec.design import Design, KernelSource
    from xpu.spec.probe import Probe
    from xpu.spec.source import ProblemSource

PROJECT: Final = "xpu"
ENTRY_POINT_GROUP: Final = "xpu"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def xpu_backends() -> Iterable[Backend]:
    """Return the backends that this plugin brings."""
    return ()


@hookspec
def xpu_designs() -> Iterable[Design]:
    """Return the kernel designs that this plugin brings."""
    return ()


@hookspec
def xpu_probes() -> Iterable[Probe]:
    """Return the probes that this plugin brings."""
    return ()


@hookspec
def xpu_problem_sources() -> Iterable[ProblemSource]:
    """Return readers that turn a model file into problems and data."""
    return ()


@hookspec
def xpu_config() -> Iterable[Path]:
    """Return TOML files (``families.toml``, ``rules.toml``, …) that this plugin ships."""
    return ()


@hookspec
def xpu_kernel_sources() -> Iterable[KernelSource]:
    """Return sources in further dialects for designs that another plugin brings."""
    return ()
