"""Which plugins are installed, and which of them `XPU_PLUGINS` lets in.

Order, and with it the winner of a conflict: what XPU's own distribution brings comes
first, then by entry-point name, then by distribution.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Final

from xpu.model import PluginRecord, nearest
from xpu.registry.contribution import Found, cause_of, log
from xpu.registry.registry import Registry, assemble
from xpu.spec import ENTRY_POINT_GROUP

VARIABLE: Final = "XPU_PLUGINS"
_OWN: Final = "xpu-orchestrator"


def load_plugins(
    *,
    entry_points: Iterable[metadata.EntryPoint] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Registry:
    """Load every plugin that is installed and admitted.

    ``XPU_PLUGINS`` is a comma-separated list: a bare name admits that plugin and, with
    it, only the named ones; ``-name`` blocks one. A name in it that no installed plugin
    bears is a ``failed`` record with stage ``XPU_PLUGINS``.

    Parameters
    ----------
    entry_points
        Those to consider; those of the group ``xpu`` when None.
    environ
        Where ``XPU_PLUGINS`` is read; the process's environment when None.
    """
    records: list[PluginRecord] = []
    points = _installed(records) if entry_points is None else entry_points
    founds = _distinct(points)
    admitted, blocked = _selection(os.environ if environ is None else environ)
    known = {found.name for found in founds}
    records += [_unknown(name, known) for name in sorted((admitted | blocked) - known)]
    for record in records:
        log.warning("%s: %s", record.stage, record.cause)
    open_to: list[Found] = []
    for found in founds:
        if found.name in blocked or (admitted and found.name not in admitted):
            how = "blocks" if found.name in blocked else "does not admit"
            records.append(found.record("blocked", VARIABLE, f"{VARIABLE} {how} {found.name!r}"))
        else:
            open_to.append(found)
    return assemble(open_to, records)


def default_registry() -> Registry:
    """Return the registry of this process: every admitted plugin, loaded once."""
    with _loading:  # two threads that come first must not each get backends of their own
        return _loaded()


_loading = threading.RLock()


@functools.cache
def _loaded() -> Registry:
    return load_plugins()


def _installed(records: list[PluginRecord]) -> list[metadata.EntryPoint]:
    """Read the installed entry points; a distribution whose metadata is torn is a record."""
    try:
        return list(metadata.entry_points(group=ENTRY_POINT_GROUP))
    except Exception:  # one torn file fails the whole call; look one by one
        points: list[metadata.EntryPoint] = []
        for distribution in metadata.distributions():
            try:
                points += distribution.entry_points.select(group=ENTRY_POINT_GROUP)
            except Exception as error:  # whatever is wrong with it, it is a record
                name = _name_of(distribution)
                cause = f"the entry points of {name} cannot be read: {cause_of(error)}"
                records.append(PluginRecord(name, name, "failed", "entry points", cause))
        return points


def _distinct(points: Iterable[metadata.EntryPoint]) -> list[Found]:
    """Put the plugins in order; the same module through two distributions is one of them."""
    names: dict[int, str] = {}
    founds: list[Found] = []
    for point in points:
        distribution = getattr(point, "dist", None)
        if id(distribution) not in names:  # reading a distribution's name parses its metadata
            names[id(distribution)] = _name_of(distribution)
        value = re.sub(r"\s+", "", point.value)
        founds.append(Found(point.name, names[id(distribution)], value, point.load))
    founds.sort(key=lambda it: (it.distribution != _OWN, it.name, it.distribution, it.value))
    distinct: dict[str, Found] = {}
    for found in founds:
        distinct.setdefault(found.value, found)
    return list(distinct.values())


def _name_of(distribution: metadata.Distribution | None) -> str:
    try:
        name = distribution.name if distribution is not None else None
    except Exception:  # torn metadata; the plugin may work all the same
        name = None
    return re.sub(r"[-_.]+", "-", name).lower() if name else "an unknown distribution"


def _selection(environ: Mapping[str, str]) -> tuple[set[str], set[str]]:
    items = {item.strip() for item in environ.get(VARIABLE, "").split(",")} - {"", "-"}
    blocked = {item[1:].strip() for item in items if item.startswith("-")}
    return {item for item in items if not item.startswith("-")}, blocked


def _unknown(name: str, known: set[str]) -> PluginRecord:
    cause = f"no installed plugin is called {name!r}; {nearest(name, known)}"
    return PluginRecord(name, "", "failed", VARIABLE, cause)
