"""One plugin, taken by itself: imported, checked, called.

Whatever it raises becomes a record; nothing that a failing plugin gave counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import pluggy

from xpu.model import PluginRecord, PluginState
from xpu.registry.checks import checked_items
from xpu.spec import PROJECT, SPEC_VERSION, hooks
from xpu.spec.backend import Backend
from xpu.spec.design import Design, KernelSource
from xpu.spec.probe import Probe
from xpu.spec.source import ProblemSource

log = logging.getLogger("xpu")

HOOKS: Final = (
    "xpu_backends",
    "xpu_designs",
    "xpu_probes",
    "xpu_problem_sources",
    "xpu_config",
    "xpu_kernel_sources",
)


@attrs.frozen
class Found:
    """A plugin that is installed and not yet imported.

    `value` is what its entry point refers to; two with the same value are one plugin.
    """

    name: str
    distribution: str
    value: str
    load: Callable[[], object]

    def record(self, state: PluginState, stage: str = "", cause: str = "") -> PluginRecord:
        """Return what became of the plugin."""
        return PluginRecord(self.name, self.distribution, state, stage, cause)


@attrs.frozen
class Contribution:
    """What one plugin brings, checked."""

    found: Found
    plugin: object
    backends: tuple[Backend, ...] = ()
    designs: tuple[Design, ...] = ()
    probes: tuple[Probe, ...] = ()
    problem_sources: tuple[ProblemSource, ...] = ()
    config: tuple[Path, ...] = ()
    kernel_sources: tuple[KernelSource, ...] = ()


def collect(found: Found) -> Contribution | PluginRecord:
    """Import one plugin and call its hooks.

    Returns
    -------
    Contribution or PluginRecord
        A record (``failed`` or ``incompatible``) when anything at all went wrong; only
        `KeyboardInterrupt` passes.
    """
    stage = "import"
    try:
        plugin = found.load()
        stage = "version"
        stated = getattr(plugin, "XPU_SPEC_VERSION", SPEC_VERSION)
        if stated != SPEC_VERSION:
            return found.record("incompatible", stage, _versions(found, stated))
        stage = "register"
        call = _registered(found.name, plugin)
        given: dict[str, Any] = {}
        for stage in HOOKS:  # a failure below is told by the hook's name
            given[stage.removeprefix("xpu_")] = checked_items(stage, call(stage))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may raise anything, SystemExit too
        log.debug("plugin %s failed at %s", found.name, stage, exc_info=error)
        return found.record("failed", stage, cause_of(error))
    return Contribution(found, plugin, **given)


def cause_of(error: BaseException) -> str:
    """Say in one line what was raised."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # the text of a foreign exception is foreign code
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _versions(found: Found, stated: object) -> str:
    return (
        f"written for XPU_SPEC_VERSION {stated!r}, this XPU has {SPEC_VERSION}; "
        f"install a release of {found.distribution} that states {SPEC_VERSION}"
    )


def _registered(name: str, plugin: object) -> Callable[[str], Iterable[object]]:
    """Register a plugin in a manager of its own and return what calls one hook.

    A manager for each keeps pluggy's validation, and a hook that raises, to one plugin.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin, name)
    manager.check_pending()
    marked = {caller.name for caller in manager.get_hookcallers(plugin) or ()}
    for hook in HOOKS:
        if hook not in marked and callable(getattr(plugin, hook, None)):
            # pluggy passes over a function without the marker, and its author would wonder.
            raise TypeError(f"{hook} is not marked: put @xpu.spec.hookimpl above it")

    def call(hook: str) -> Iterable[object]:
        return list(getattr(manager.hook, hook)())

    return call
