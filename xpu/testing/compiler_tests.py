"""Tests of a backend's names and of its compiler half, none of which needs a device."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
import pytest

from xpu.adaptor import Adaptor, BuildCache, Built
from xpu.errors import XpuBuildError
from xpu.model import DEVICE_FACT_NAMES, KernelFacts
from xpu.spec import Availability, Backend, CompiledCode
from xpu.testing.backend_fixtures import BackendFixtures
from xpu.testing.workbench import Workbench

BROKEN: Final = "#error this kernel does not compile\n)]} = (\n"
"""A text that is no program in any dialect."""

_FRAME: Final = """
#include "xpu_c.h"
XPU_KERNEL
{
    volatile int64_t kept[512];
    for (int i = 0; i < 512; i++) kept[i] = sizes[0];
}
"""
"""A kernel that has a stack frame in the dialect `c`."""

_BARE: Final = """
import importlib, sys
from xpu.spec import Availability
sys.path[:] = sys.argv[3:]
place = importlib.import_module(sys.argv[1])
for part in sys.argv[2].split("."):
    place = getattr(place, part)
state = place().availability()
assert isinstance(state, Availability), state
"""


class CompilerTests(BackendFixtures):
    """Names, availability, and what compiling gives."""

    def test_it_says_its_names(self, bench: Workbench) -> None:
        one = bench.backend
        assert one.name.isidentifier(), "name: letters, digits and underscores"
        assert one.dialect.isidentifier(), "dialect: letters, digits and underscores"
        assert isinstance(one.further_facts, tuple), "further_facts is a tuple of names"
        common = set(one.further_facts) & DEVICE_FACT_NAMES
        assert not common, f"further_facts: {common} are facts that every backend may report"

    def test_its_class_is_found_by_name_and_called_without_arguments(self, tmp_path: Path) -> None:
        cls = self.backend
        place: Any = importlib.import_module(cls.__module__)
        for part in cls.__qualname__.split("."):
            assert part != "<locals>", "a worker process cannot find a class within a function"
            place = getattr(place, part)
        assert place is cls
        assert self.made_bench(tmp_path).backend.name == cls().name

    def test_its_compiler_knows_the_target_of_its_own(self, bench: Workbench) -> None:
        compiler = bench.compiler
        assert compiler.knows(bench.target), f"knows() denies {bench.target!r}, its own target"
        assert not compiler.knows("no such target"), "knows() says yes to anything"

    def test_availability_is_said_and_never_raised(self, bench: Workbench) -> None:
        start = time.monotonic()
        for _ in range(2):
            state = bench.backend.availability()
            assert isinstance(state, Availability)
            assert state.is_available or state.reason, "it is not available and does not say why"
        assert time.monotonic() - start < 60, "it is asked at every start: it has to be quick"

    def test_availability_never_raises_in_a_bare_process(self, bench: Workbench) -> None:
        cls = type(bench.backend)
        names = [cls.__module__, cls.__qualname__, *sys.path]
        done = subprocess.run(  # noqa: S603 - this interpreter, on this very backend
            [sys.executable, "-c", _BARE, *names],
            env={"PYTHONPATH": ":".join(sys.path), "PATH": "", "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"with nothing on PATH:\n{done.stderr}"

    def test_the_compiler_says_what_a_build_rests_on(self, bench: Workbench) -> None:
        try:
            compilers = bench.backend.compiler(), type(bench.backend)().compiler()
        except XpuBuildError as error:
            pytest.skip(f"backend {bench.backend.name!r} has no compiler here: {error}")
        for one in compilers:
            assert isinstance(one.identity, str)
            assert one.identity, "identity: compiler and version"
            assert isinstance(one.fingerprint(bench.target), str)
        first, other = compilers
        assert first.identity == other.identity, "identity differs each time"
        prints = [one.fingerprint(bench.target) for one in compilers]
        assert prints[0] == prints[1], "fingerprint() differs each time"

    def test_every_kernel_of_the_kit_compiles(self, bench: Workbench) -> None:
        for name in ("kit_table", "kit_in_place"):
            assert name in dict(bench.at_hand()), (
                f"there is no kernel for {name!r} in dialect {bench.backend.dialect!r}; hand one "
                f"in: kernels = (KernelSource({bench.backend.dialect!r}, text, design={name!r}),)"
            )
        told = [bench.compile_fault(name, member) for name, member in bench.at_hand()]
        assert not any(told), "\n".join(filter(None, told))

    def test_compiling_needs_no_device(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unit, target = bench.unit(), bench.target
        bench.code()
        for name in ("open", "devices", "availability"):
            monkeypatch.setattr(type(bench.backend), name, _asked(name))
        fresh: Backend = type(bench.backend)()
        (result,) = fresh.compiler().compile([unit], target, deadline_s=120)
        assert isinstance(result, CompiledCode), str(result)

    def test_the_same_input_gives_the_same_bytes(self, bench: Workbench) -> None:
        unit = bench.unit()
        bench.code()
        (first,), (second,) = bench.compiled(unit), bench.compiled(unit)
        assert first.code == second.code, "an answer rests on the hash of the code"
        assert first.facts == second.facts

    def test_a_batch_keeps_its_order_and_an_error_its_place(self, bench: Workbench) -> None:
        bench.code()
        good = bench.unit()
        broken = attrs.evolve(good, kernel="kit_table.broken", text=BROKEN)
        other = attrs.evolve(good, entry="xpu_kit_other")
        results = bench.compiled(good, broken, other)
        kinds = [type(result) for result in results]
        assert kinds == [CompiledCode, XpuBuildError, CompiledCode], results
        assert "kit_table.broken" in str(results[1]), "the error does not name the kernel"
        assert results[0].code == bench.compiled(good)[0].code
        assert results[2].code == bench.compiled(other)[0].code

    def test_an_unknown_target_is_an_error_in_its_place(self, bench: Workbench) -> None:
        bench.code()
        (result,) = bench.compiler.compile([bench.unit()], "no_part_on_earth", deadline_s=120)
        assert isinstance(result, XpuBuildError), result
        assert "no_part_on_earth" in str(result), "the error does not name the target"

    def test_a_compilation_that_does_not_end_is_ended(self, bench: Workbench) -> None:
        unit = bench.unit()
        if "kit_deep.h" not in unit.includes:
            pytest.skip(f"no slow source is known in dialect {bench.backend.dialect!r}")
        slow = attrs.evolve(unit, text='#include "kit_deep.h"\n' + unit.text)
        start = time.monotonic()
        (result,) = bench.compiled(slow, deadline_s=0.5)
        assert time.monotonic() - start < 30, "a deadline of 0.5 s was passed by half a minute"
        if isinstance(result, CompiledCode):
            pytest.skip("the compiler does not read what a source includes")
        assert isinstance(result, XpuBuildError), result
        assert unit.kernel in str(result), "the error does not name the kernel"

    def test_what_was_read_from_the_code_survives_the_cache(
        self, bench: Workbench, tmp_path: Any
    ) -> None:
        bench.code()
        family = bench.settings.family("kit_table")
        builts = []
        for _ in range(2):
            adaptor = Adaptor(bench.backend, bench.registry, BuildCache(tmp_path))
            built = adaptor.build(family, family.members[:1], bench.target)["fine"]
            assert isinstance(built, Built), str(built)
            builts.append(built)
        assert builts[1].was_cached
        assert builts[0].facts == builts[1].facts

    def test_a_fact_of_the_code_is_read_or_absent(self, bench: Workbench) -> None:
        bench.code()
        (result,) = bench.compiled(bench.unit())
        facts = result.facts
        assert isinstance(facts, KernelFacts)
        assert facts.registers is None or facts.registers <= 1 << 12, "registers are per thread"
        no_frame = facts.stack_bytes == 0 and facts.registers is None
        # A kernel of a host may need no frame, and then 0 was read.
        if no_frame and bench.backend.dialect == "c":
            (result,) = bench.compiled(attrs.evolve(bench.unit(), text=_FRAME))
            assert isinstance(result, CompiledCode), result
            no_frame = result.facts.stack_bytes == 0
        assert not no_frame, "stack_bytes is 0 and nothing else was read: leave it absent"
        named = [buffer.name for buffer in result.buffers]
        expected = [argument.name for argument in bench.unit().arguments]
        assert named in ([], expected), f"buffers: {named}; the kernel takes {expected}"


def _asked(name: str) -> Any:
    def fail(*_: object, **__: object) -> NoReturn:
        raise AssertionError(f"the compiler half called {name}(): it has to work with no device")

    return fail
