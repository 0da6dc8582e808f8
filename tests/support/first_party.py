"""XPU's own plugins, for the tests that rest on them; without its folder a test is skipped."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from xpu.registry import Registry


def package(name: str) -> str | None:
    """Name the package of a plugin by its folder's name; None where the folder is gone."""
    packages = (f"xpu_{kind}_{name}" for kind in ("backend", "family", "probe", "source"))
    return next((it for it in packages if find_spec(it)), None)


def plugin(name: str) -> ModuleType:
    """Import a plugin; skip the test, or the module, where its folder is gone.

    One that is here and cannot be imported fails the test.
    """
    found = package(name)
    if found is None:
        pytest.skip(f"needs the plugin {name!r}, whose folder is gone", allow_module_level=True)
    return importlib.import_module(f"{found}.plugin")


def registry(*names: str, more: Iterable[tuple[str, object, str]] = ()) -> Registry:
    """Make a registry of some plugins and of `more`, without looking at what is installed."""
    own = [(name, plugin(name), "xpu-orchestrator") for name in names]
    return Registry.from_plugins([*own, *more])


def without(packages: set[str], table: Any) -> Any:
    """Copy a project file's tables but for what names a package, a module or a folder of it."""

    def names_one(value: object) -> bool:
        return isinstance(value, str) and bool(packages & set(re.split(r"[./]", value)))

    if isinstance(table, dict):
        return {key: without(packages, it) for key, it in table.items() if not names_one(it)}
    if isinstance(table, list):
        return [without(packages, it) for it in table if not names_one(it)]
    return table
