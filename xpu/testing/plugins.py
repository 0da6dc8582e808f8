"""A registry of what a test has at hand, without anything being installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from xpu.errors import XpuPluginError
from xpu.registry import Registry
from xpu.spec import Backend, Design, KernelSource, Probe, ProblemSource, hookimpl

_CLASSES: Final = (Backend, Design, Probe, ProblemSource)
_KINDS: Final = (*_CLASSES, KernelSource, Path)


def registry_of(*given: object) -> Registry:
    """Make a registry of plugins and of loose parts.

    Parameters
    ----------
    given
        Plugin modules or objects (whatever has hooks), and backends, designs, probes, problem
        sources, kernel sources and paths of TOML files. A class among them is called.

    Raises
    ------
    XpuPluginError
        A plugin does not load, two bring the same name, or something is of no use here.
    """
    parts = [it() if isinstance(it, type) and issubclass(it, _CLASSES) else it for it in given]
    loose = [part for part in parts if isinstance(part, _KINDS)]
    plugins = [part for part in parts if not isinstance(part, _KINDS)]
    named = [(f"plugin_{at}", plugin) for at, plugin in enumerate(plugins)]
    for name, plugin in named:
        if not any(attribute.startswith("xpu_") for attribute in dir(plugin)):
            raise XpuPluginError(
                f"{name}, {plugin!r}, has no hook; give plugin modules, or backends, designs, "
                "probes, problem sources, kernel sources and paths of TOML files"
            )
    # Those that only add sources come last in any registry; the parts are one plugin.
    registry = Registry.from_plugins(
        [(name, plugin, "a test") for name, plugin in [*named, ("parts", _Parts(loose))]]
    )
    for record in registry.records:
        if record.state != "loaded":
            raise XpuPluginError(f"{record.name}: {record.state} at {record.stage}: {record.cause}")
    return registry


class _Parts:
    """Loose parts as one plugin."""

    def __init__(self, parts: Sequence[object]) -> None:
        self._parts = parts

    @hookimpl
    def xpu_backends(self) -> list[Any]:
        return self._of(Backend)

    @hookimpl
    def xpu_designs(self) -> list[Any]:
        return self._of(Design)

    @hookimpl
    def xpu_probes(self) -> list[Any]:
        return self._of(Probe)

    @hookimpl
    def xpu_problem_sources(self) -> list[Any]:
        return self._of(ProblemSource)

    @hookimpl
    def xpu_kernel_sources(self) -> list[Any]:
        return self._of(KernelSource)

    @hookimpl
    def xpu_config(self) -> list[Any]:
        return self._of(Path)

    def _of(self, kind: type) -> list[Any]:
        return [part for part in self._parts if isinstance(part, kind)]
