"""The code that says what a compiler made, as a hash: a manifest holds for what read it.

A mended reader of registers or loops finds other facts in the same code, and nobody is to
remember that it was mended. So the Python modules behind a compiler's class are hashed: its own
one and what that imports, wherever in it, of the plugin and of XPU. A backend's device half is
not among them as long as its compiler half does not import it. Called for the key of each build.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from xpu.registry.guard import bare
from xpu.registry.made_of import is_edited
from xpu.spec.compiler import Compiler
from xpu.spec.remembered import remembered

_OWN: Final = "xpu"
_PROCESS: Final = uuid.uuid4().hex
_known: Final[dict[type, str]] = {}


def read_by(compiler: Compiler) -> str:
    """Hash the modules that a compiler's class, and each of its bases, is made of.

    They are read once for each class, and parsed once for each state of their files. Modules
    without a source file, and packages of others, do not count. Where they were edited since they
    were loaded, what reads here is in no file any more: the hash is then that of no other process.
    """
    cls = type(bare(compiler))
    if cls not in _known:
        _known[cls] = f"{_hashed(cls)} {_PROCESS}" if is_edited(compiler) else _hashed(cls)
    return _known[cls]


def _hashed(cls: type) -> str:
    first = [base.__module__ for base in cls.__mro__ if issubclass(base, Compiler)]
    places = [getattr(sys.modules.get(name), "__file__", None) for name in (*first, _OWN)]

    def ask() -> tuple[str, list[Path]]:
        files = _Search(first).files()
        digest = hashlib.sha256()
        for name in sorted(files):
            content = hashlib.sha256(files[name].read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
        return digest.hexdigest(), list(files.values())

    return remembered(f"modules behind {first} in {places}", ask)


class _Search:
    """Looks for modules, and for what these import of their own packages and of XPU."""

    def __init__(self, first: Sequence[str]) -> None:
        self._first = first
        self._packages = {_OWN, *(_package(name) for name in first)}
        self._specs: dict[str, ModuleSpec | None] = {}
        self._imports: dict[str, list[tuple[str, str]]] = {}

    def files(self) -> dict[str, Path]:
        """Return their files by name."""
        found: dict[str, Path] = {}
        waiting = [(name, "") for name in self._first]
        seen = set(waiting)
        while waiting:
            for further in self._behind(*waiting.pop(), found):
                if further not in seen:
                    seen.add(further)
                    waiting.append(further)
        return found

    def _behind(self, module: str, item: str, found: dict[str, Path]) -> Sequence[tuple[str, str]]:
        """Add the module that a name is defined in, and return what it imports.

        A package hands names on. What stands in it beside them does not count, or all of a
        package would be behind each of its names.
        """
        own = f"{module}.{item}" if item else module
        if self._file(own) is None:
            own = module
            spec = self._spec(module)
            if spec is not None and spec.submodule_search_locations is not None:
                handed_on = [each for each in self._imported(module) if each[1] == item]
                if handed_on:
                    return handed_on
        file = self._file(own)
        if file is None:
            return ()
        found[own] = file
        return self._imported(own)

    def _imported(self, name: str) -> list[tuple[str, str]]:
        if name not in self._imports:
            file, spec = self._file(name), self._spec(name)
            inside = "" if spec is None else spec.parent or ""
            self._imports[name] = (
                []
                if file is None
                else [
                    each for each in _imports(file, inside) if _package(each[0]) in self._packages
                ]
            )
        return self._imports[name]

    def _file(self, name: str) -> Path | None:
        spec = self._spec(name)
        file = None if spec is None or spec.origin is None else Path(spec.origin)
        return file if file is not None and file.suffix == ".py" and file.is_file() else None

    def _spec(self, name: str) -> ModuleSpec | None:
        if name not in self._specs:
            self._specs[name] = None
            with suppress(ImportError, ValueError, AttributeError):  # it is no module
                self._specs[name] = find_spec(name)
        return self._specs[name]


def _imports(file: Path, inside: str) -> Iterator[tuple[str, str]]:
    """Yield what a module of a package imports, in functions too.

    That is a module and a name in it, which is empty where the whole module is meant.
    """
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = inside.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from ((module, "" if each.name == "*" else each.name) for each in node.names)


def _package(name: str) -> str:
    return name.partition(".")[0]
