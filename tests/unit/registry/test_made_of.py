"""What a plugin's object is made of changes with every file that its author may have mended."""

from __future__ import annotations

import importlib
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xpu.registry import Owner, Registry, bare, guarded, is_edited, made_of
from xpu.spec import hookimpl

BASE = """
from xpu.spec import Backend
class Base(Backend):
    name = dialect = "c"
    def availability(self): ...
    def compiler(self): ...
    def devices(self): ...
    def open(self, index=0): ...
"""
_names = itertools.count()


class Package:
    """A package whose object is imported anew each time, as by a process that starts."""

    def __init__(self, folder: Path) -> None:
        self.name = f"made_of_{next(_names)}"
        self.folder = folder / self.name
        self.write("__init__.py", "")
        self.write("design.py", BASE)
        self.write("reference/__init__.py", "")
        self.write("reference/exact.py", "x = 1")
        self.write("kernels/kernel.c", "int x;")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def object(self, module: str = "design", distribution: str = "acme-xpu") -> Any:
        for name in [name for name in sys.modules if name.startswith(self.name)]:
            del sys.modules[name]
        importlib.invalidate_caches()
        made = importlib.import_module(f"{self.name}.{module}").Base()
        return guarded(made, Owner("acme", distribution, "backend 'c'"))

    def hash(self, **more: Any) -> str:
        return made_of(self.object(**more))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.syspath_prepend(tmp_path)
    return Package(tmp_path)


@pytest.mark.parametrize(
    "mend",
    [
        lambda it: it.write("design.py", BASE + "\n"),
        lambda it: it.write("reference/exact.py", "x = 2"),
        lambda it: it.write("reference/more.py", ""),
        lambda it: (it.folder / "reference/exact.py").unlink(),
        lambda it: (it.folder / "reference/exact.py").rename(it.folder / "exact.py"),
    ],
)
def test_a_mended_file_is_another_object(mend: Callable[[Package], None], package: Package) -> None:
    before = package.hash()
    mend(package)
    assert package.hash() != before


def test_what_is_no_python_does_not_count(package: Package) -> None:
    before = package.hash()
    package.write("kernels/kernel.c", "int y;")
    package.write("__pycache__/design.cpython-311.pyc", "")
    assert package.hash() == before


def test_the_version_of_the_distribution_counts(package: Package, tmp_path: Path) -> None:
    def install(version: str) -> str:
        info = tmp_path / "acme_xpu-1.dist-info"
        info.mkdir(exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: acme-xpu\nVersion: {version}\n"
        (info / "METADATA").write_text(text)
        return package.hash()

    hashes = {package.hash(), install("1.0"), install("1.1")}
    assert len(hashes) == 3
    assert package.hash(distribution="an unknown distribution") not in hashes
    assert package.hash(distribution="") not in hashes


def test_a_base_class_of_another_package_counts(package: Package, tmp_path: Path) -> None:
    common = Package(tmp_path)
    package.write("design.py", f"from {common.name}.design import Base\nclass Base(Base): ...\n")
    before = package.hash()
    common.write("reference/exact.py", "x = 3")
    assert package.hash() != before


def test_a_module_by_itself_does_not_count_its_neighbours(package: Package, tmp_path: Path) -> None:
    def of_module(name: str) -> str:
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return made_of(importlib.import_module(name).Base())

    name = f"alone_{next(_names)}"
    (tmp_path / f"{name}.py").write_text(BASE)
    before = of_module(name)
    (tmp_path / "neighbour.py").write_text("x = 1")
    assert of_module(name) == before
    (tmp_path / f"{name}.py").write_text(BASE + "x = 1\n")
    assert of_module(name) != before


def test_files_are_read_once(package: Package) -> None:
    one = package.object()
    before = made_of(one)
    package.write("design.py", BASE + "\n")
    # What judges here was imported before: it is not what the file holds now.
    assert made_of(one) == before


def loaded(package: Package) -> Any:
    """Return the object as a registry that loads it now hands it out."""
    return registered(bare(package.object()))


def registered(backend: Any) -> Any:
    plugin = type("Plugin", (), {"xpu_backends": hookimpl(lambda self: [backend])})()
    return Registry.from_plugins([("acme", plugin, "acme-xpu")]).backend("c")


@pytest.mark.parametrize("name", ["design.py", "reference/exact.py", "reference/late.py"])
def test_it_is_edited_when_a_file_was_written_after_it_was_loaded(
    name: str, package: Package
) -> None:
    one = loaded(package)
    time.sleep(0.02)  # the clock of files is coarser than that of processes
    package.write("kernels/kernel.c", "int y;")
    assert not is_edited(one)
    package.write(name, f"{BASE}\n")
    assert is_edited(one)
    # A second registry of the same process imports nothing anew.
    assert is_edited(registered(bare(one)))
    assert not is_edited(loaded(package))


def test_of_what_no_registry_loaded_nothing_is_known(package: Package) -> None:
    one = package.object()
    package.write("design.py", f"{BASE}\n")
    assert not is_edited(one)
