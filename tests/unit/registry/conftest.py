"""Plugins made for a test: objects at hand, and distributions on disk."""

from __future__ import annotations

import importlib
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from xpu.spec import Argument, Backend, Design, Probe, ProblemSource, hookimpl


def _nothing(self: object, *given: object, **named: object) -> None:
    return None


def _only_c(self: object) -> tuple[str, ...]:
    return ("c",)


def _concrete(base: type, name: str, **attributes: Any) -> Any:
    """Make an instance of an abstract class, every abstract method returning nothing."""
    abstract: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    body: dict[str, Any] = dict.fromkeys(abstract, _nothing)
    return type(f"Made{base.__name__}", (base,), body | {"name": name} | attributes)()


@pytest.fixture
def backend() -> Callable[..., Backend]:
    return lambda name, **more: _concrete(Backend, name, **{"dialect": "c", **more})


@pytest.fixture
def design() -> Callable[..., Design]:
    def make(name: str, **more: Any) -> Design:
        attributes = {
            "parameters": ("tile_m",),
            "problem": ("m", "n"),
            "arguments": (Argument("y", "float32", "write"),),
            "dialects": _only_c,
        }
        made: Design = _concrete(Design, name, **(attributes | more))
        return made

    return make


@pytest.fixture
def probe() -> Callable[..., Probe]:
    return lambda name, **more: _concrete(Probe, name, **{"summary": "looks at it", **more})


@pytest.fixture
def source() -> Callable[..., ProblemSource]:
    return lambda name, **more: _concrete(ProblemSource, name, **more)


@pytest.fixture
def plugin() -> Callable[..., types.SimpleNamespace]:
    """Make a plugin whose hooks return what is given, or call it when it can be called."""

    def make(**hooks: Any) -> types.SimpleNamespace:
        made = types.SimpleNamespace()
        for hook, given in hooks.items():
            setattr(made, hook, hookimpl(_hook(given)))
        return made

    return make


def _hook(given: Any) -> Callable[[], Any]:
    return given if callable(given) else lambda: given


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def install(self, distribution: str, points: dict[str, str], **modules: str) -> None:
        """Write a distribution with entry points and the text of its modules."""
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        lines = (f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text("[xpu]\n" + "".join(lines))
        for name, text in modules.items():
            (self.folder / f"{name}.py").write_text(textwrap.dedent(text))
            self.modules.add(name)

    def points(self) -> list[metadata.EntryPoint]:
        """Return every entry point that is installed here."""
        found = metadata.distributions(path=[str(self.folder)])
        return [point for distribution in found for point in distribution.entry_points]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(tmp_path)
    made = Site(tmp_path)
    importlib.invalidate_caches()
    yield made
    for name in made.modules:
        sys.modules.pop(name, None)
