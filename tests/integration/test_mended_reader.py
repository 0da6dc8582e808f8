"""Facts that an older reader of the code read are not served when it has been mended."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy_family as toy

from xpu.adaptor import Adaptor, BatchAdaptor, BuildCache, Built
from xpu.errors import XpuBuildError
from xpu.model import Family, Member
from xpu.registry import Registry
from xpu.registry.made_of import note_loaded

COMPILER = """
from mended_reader.registers import registers_of
from xpu.errors import XpuBuildError
from xpu.model import KernelFacts
from xpu.spec import CompiledCode
from xpu.testing.null_backend import NullCompiler

class OwnCompiler(NullCompiler):
    def compile(self, units, target, *, deadline_s):
        return [self.read(unit) for unit in units]

    def read(self, unit):
        try:
            return CompiledCode(unit.text.encode(), KernelFacts(registers=registers_of(unit)))
        except ValueError as cause:
            return XpuBuildError(str(cause))
"""
BACKEND = """
from mended_reader.compiler import OwnCompiler
from xpu.testing import NullBackend

class Own(NullBackend):
    def compiler(self):
        return OwnCompiler({})
"""
FAMILY = Family("toy", "toy", ("n",), (Member("a", {"mode": 0, "grain": 1}),))


class Author:
    """Writes a backend, and builds with it as a process does that starts now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "mended_reader").mkdir()
        self.write("compiler", COMPILER)
        self.write("device", BACKEND)
        self.reads("return 40")

    def write(self, module: str, text: str) -> None:
        (self._folder / "mended_reader" / f"{module}.py").write_text(text)

    def reads(self, line: str) -> None:
        self.write("registers", f"def registers_of(unit):\n    {line}\n")

    def built(self, adaptor: type[Adaptor]) -> Built | XpuBuildError:
        one = self.start(adaptor)
        result = one.build(FAMILY, FAMILY.members, "t")["a"]
        one.cache.save_index()
        return result

    def recalled(self) -> Built | XpuBuildError | None:
        return self.start(Adaptor).recall(FAMILY, FAMILY.members, "t")["a"]

    def start(self, adaptor: type[Adaptor]) -> Adaptor:
        for name in [name for name in sys.modules if name.startswith("mended_reader")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        began_ns = time.time_ns()
        backend = importlib.import_module("mended_reader.device").Own("c")
        note_loaded(backend, began_ns)
        cache = BuildCache(self._folder / "build")
        return adaptor(backend, Registry(designs={"toy": toy.Toy()}), cache)


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Author]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # two edits may fall in one second
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "cache"))
    yield Author(tmp_path)
    for name in [name for name in sys.modules if name.startswith("mended_reader")]:
        del sys.modules[name]


@pytest.mark.parametrize("adaptor", [Adaptor, BatchAdaptor])
def test_a_mended_reader_reads_again(author: Author, adaptor: type[Adaptor]) -> None:
    first, again = author.built(adaptor), author.built(adaptor)
    assert (first.was_cached, first.facts.registers) == (False, 40)
    assert (again.was_cached, again.facts.registers) == (True, 40)
    author.reads("return 48")
    mended = author.built(adaptor)
    assert (mended.was_cached, mended.facts.registers) == (False, 48)
    # An answer rests on the code, which is the same.
    assert mended.code_hash == first.code_hash
    author.write("device", BACKEND + "\n# of the device half\n")
    assert author.built(adaptor).was_cached
    # What was read before is there still.
    author.reads("return 40")
    assert author.built(adaptor) == again


def test_what_an_older_reader_refused_is_no_failure_any_more(author: Author) -> None:
    author.reads("raise ValueError('no such thing')")
    author.built(Adaptor)
    assert "no such thing" in str(author.recalled())
    author.reads("return 40")
    assert author.recalled() is None
    assert author.built(Adaptor).facts.registers == 40


def test_what_was_read_while_the_reader_was_being_edited_is_served_to_nobody_else(
    author: Author,
) -> None:
    started = author.start(Adaptor)
    author.reads("return 48")
    first, again = (started.build(FAMILY, FAMILY.members, "t")["a"] for _ in range(2))
    assert (first.was_cached, first.facts.registers) == (False, 40)
    assert again.was_cached
    later = author.built(Adaptor)
    assert (later.was_cached, later.facts.registers) == (False, 48)
    assert author.built(Adaptor).was_cached
