"""The hash of a compiler's code changes with whatever module may read facts, and with no other."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import first_party
import pytest

from xpu.errors import XpuBuildError
from xpu.registry import Owner, bare, guarded, read_by
from xpu.registry.read_by import _Search

COMPILER = """
import re as words
from pathlib import Path
from xpu.spec import Compiler
from {0}.deep import counted
from {0} import registers
class Own(Compiler):
    identity = native_target = fingerprint = None
    def compile(self, units, target, *, deadline_s):
        from .late import spills
        import {0}.whole
        import {0}.whole.part as part
"""
_names = itertools.count()


class Package:
    """A package whose compiler is imported anew each time, as by a process that starts."""

    def __init__(self, folder: Path) -> None:
        self.name = f"read_by_{next(_names)}"
        self.folder = folder / self.name
        self.write("__init__.py", "")
        self.write("compiler.py", COMPILER.format(self.name))
        # Handed on under its own name; beside it stands what the compiler does not use.
        self.write("deep/__init__.py", "from .loops import counted\nfrom .timer import clock\n")
        self.write("deep/loops.py", "from ..words import forms\ndef counted(): ...\n")
        self.write("deep/timer.py", "clock = 1\n")
        self.write("words.py", "forms = 1\n")
        self.write("registers.py", "")
        self.write("late.py", "spills = 1\n")
        self.write("whole/__init__.py", f"from {self.name}.whole import part\n")
        self.write("whole/part.py", "")
        self.write("device.py", f"from {self.name} import compiler\n")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def compiler(self) -> Any:
        for name in [name for name in sys.modules if name.startswith(self.name)]:
            del sys.modules[name]
        importlib.invalidate_caches()
        made = importlib.import_module(f"{self.name}.compiler").Own
        made.__abstractmethods__ = frozenset()
        return guarded(made(), Owner("acme", "acme-xpu", "backend 'c'"))

    def hash(self) -> str:
        return read_by(self.compiler())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "cache"))
    return Package(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "compiler.py",
        "deep/loops.py",
        "words.py",
        "registers.py",
        "late.py",
        "whole/__init__.py",
        "whole/part.py",
    ],
)
def test_a_mended_module_behind_a_compiler_is_another_reader(name: str, package: Package) -> None:
    before = package.hash()
    package.write(name, f"{(package.folder / name).read_text()}\n# mended\n")
    assert package.hash() != before


@pytest.mark.parametrize(
    "edit",
    [
        lambda it: it.write("device.py", "x = 1"),
        lambda it: it.write("deep/timer.py", "clock = 2\n"),
        lambda it: it.write("more.py", ""),
        lambda it: it.write("runtime/xpu_prelude.h", ""),
    ],
)
def test_what_a_compiler_does_not_import_is_none(
    edit: Callable[[Package], None], package: Package
) -> None:
    before = package.hash()
    edit(package)
    assert package.hash() == before


def test_a_base_class_of_another_package_counts(package: Package, tmp_path: Path) -> None:
    common = Package(tmp_path)
    text = f"from {common.name}.compiler import Own as Base\nclass Own(Base):\n  x = 1\n"
    package.write("compiler.py", text)
    before = package.hash()
    common.write("words.py", "forms = 2\n")
    assert package.hash() != before


def test_names_that_packages_hand_to_each_other_end(package: Package) -> None:
    asked = "try:\n  from {} import lost\nexcept ImportError: ...\n"
    package.write("__init__.py", asked.format(f"{package.name}.deep"))
    deep = (package.folder / "deep/__init__.py").read_text()
    package.write("deep/__init__.py", deep + asked.format(package.name))
    text = COMPILER.format(package.name)
    package.write("compiler.py", text + asked.format(package.name))
    assert package.hash()


def test_files_are_parsed_once_for_each_state(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = package.hash()
    monkeypatch.setattr(_Search, "files", lambda _: pytest.fail("it looks again"))
    assert package.hash() == before


def test_a_class_without_a_file_has_a_hash() -> None:
    nowhere: Any = type("Made", (), {"__module__": "nowhere"})
    assert read_by(nowhere())


READERS = {
    "cpu": {"xpu_backend_cpu.vectors", "xpu_backend_cpu.scalars", "xpu_backend_cpu.loops"},
    "cuda": {"xpu_backend_cuda.cubin", "xpu_backend_cuda.ptx", "xpu.spec.accesses"},
    "hip": {"xpu_backend_hip.code_object", "xpu_backend_hip.generated", "xpu.spec.llvm_ir"},
    "emulator": {"xpu_backend_emulator.code", "xpu.spec.tiers"},
}


@pytest.mark.parametrize("name", READERS)
def test_readers_of_the_shipped_backends_count_and_their_device_half_does_not(name: str) -> None:
    backend = first_party.registry(name).backend(name)
    try:
        compiler = bare(backend.compiler())
    except XpuBuildError as missing:
        pytest.skip(str(missing))
    behind = set(_Search([type(compiler).__module__]).files())
    assert READERS[name] <= behind
    package = f"xpu_backend_{name}"
    assert not {f"{package}.device", f"{package}.timer", "xpu.spec.dlpack"} & behind
