"""Builds and runs the kit's kernels on a backend under test.

What the backend cannot do is a skipped test that says why; what it does wrong is for the
suites to assert. One fault is one failure: where something fails that a test of its own looks
at, every other test that stands on it is skipped, and names that test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.adaptor.units import member_unit
from xpu.choice import MemberFault, Worker
from xpu.choice.job import Job, Step
from xpu.errors import XpuBuildError
from xpu.model import Member, Problem
from xpu.orchestrator import settings_for
from xpu.spec import (
    Argument,
    Backend,
    CompiledCode,
    Compiler,
    Device,
    DeviceArray,
    KernelSource,
    KernelUnit,
    Launch,
    LoadedKernel,
    host_dtype,
)
from xpu.testing.c_designs import KitIsa, KitPhases
from xpu.testing.designs import SUFFIXES, KitDesign, KitInPlace, KitTable
from xpu.testing.plugins import registry_of
from xpu.testing.simt_designs import KitLines, KitMatrix, KitVerbs
from xpu.testing.surroundings import skip_for

_RUNS: Final = "test_a_worker_process_runs_every_kernel_of_the_kit"
_COMPILES: Final = "test_every_kernel_of_the_kit_compiles"
DEADLINE_S: Final = 120.0
DESIGNS: Final = (KitTable, KitInPlace, KitPhases, KitIsa, KitMatrix, KitLines, KitVerbs)
Arrays = Mapping[str, NDArray[Any]]


class Workbench:
    """A backend, the kit's designs, and a directory for what is built; close it.

    Parameters
    ----------
    backend
        The backend under test.
    kernels
        The kit's kernels in the backend's own dialect; one without a design is `kit_table`'s.
    target
        What to compile for; None for the machine's own device.
    directory
        Where code objects are put.
    """

    def __init__(
        self,
        backend: Backend,
        kernels: Sequence[KernelSource],
        target: str | None,
        directory: Path,
    ) -> None:
        named = [attrs.evolve(one, design=one.design or KitTable.name) for one in kernels]
        toml = Path(__file__).with_name("kit.toml")
        self.backend = backend
        self.registry = registry_of(backend, *DESIGNS, *named, toml)
        self.settings = settings_for(self.registry)
        self._target = target
        self._directory = directory
        self._uncompiled: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._worker = Worker(backend, 0)

    def close(self) -> None:
        """Stop the worker process."""
        self._worker.close()

    @property
    def compiler(self) -> Compiler:
        """The compiler half; the test is skipped where there is none."""
        try:
            return self.backend.compiler()
        except XpuBuildError as error:
            pytest.skip(f"backend {self.backend.name!r} has no compiler here: {error}")
        except Exception as error:
            skip_for(error, "compiler()", "test_the_compiler_says_what_a_build_rests_on")

    @property
    def target(self) -> str:
        """What to compile for."""
        return self._target or self.compiler.native_target()

    def design(self, name: str) -> KitDesign:
        """Return a design of the kit; the test is skipped where no kernel of it is at hand."""
        design, dialect = self.registry.designs[name], self.backend.dialect
        assert isinstance(design, KitDesign)
        if self.registry.source_for(name, dialect) is not None:
            return design
        if dialect in SUFFIXES:
            pytest.skip(f"{design.what}: the dialect {dialect!r} has none")
        pytest.skip(
            f"{design.what}: if the dialect {dialect!r} has that, hand in a kernel: "
            f"kernels = (KernelSource({dialect!r}, text, design={name!r}),)"
        )

    def at_hand(self) -> Iterator[tuple[str, str]]:
        """Yield every design of the kit that there is a kernel of, with each of its members."""
        for design in DESIGNS:
            if self.registry.source_for(design.name, self.backend.dialect) is not None:
                yield from ((design.name, member) for member in self.members(design.name))

    def members(self, name: str) -> tuple[str, ...]:
        """Name the members of a design's family."""
        return tuple(member.name for member in self.settings.family(name).members)

    def unit(self, name: str = KitTable.name, member: str | None = None) -> KernelUnit:
        """Return a member to compile; the first when None."""
        design, family = self.design(name), self.settings.family(name)
        source = self.registry.source_for(name, self.backend.dialect)
        assert source is not None
        return member_unit(family, design, source, self._member(name, member))

    def compiled(self, *units: KernelUnit, deadline_s: float = DEADLINE_S) -> list[Any]:
        """Compile units in one batch."""
        return list(self.compiler.compile(units, self.target, deadline_s=deadline_s))

    def compile_fault(self, name: str, member: str | None = None) -> str:
        """Compile a member, once; say why it does not, the empty text where it does."""
        unit = self.unit(name, member)
        if unit.kernel not in self._uncompiled:
            (result,) = self.compiled(unit)
            is_there = isinstance(result, CompiledCode) and bool(result.code)
            self._uncompiled[unit.kernel] = "" if is_there else f"{unit.kernel}: {result}"
            if is_there:
                self._file(unit).write_bytes(result.code)
        return self._uncompiled[unit.kernel]

    def code(self, name: str = KitTable.name, member: str | None = None) -> Path:
        """Return the file with a member's code; the test is skipped where it does not compile."""
        unit = self.unit(name, member)
        try:
            is_whole = not self.compile_fault(name, member)
        except Exception:
            is_whole = False
        if not is_whole:
            skip_for("does not compile", unit.kernel, _COMPILES)
        return self._file(unit)

    def fault(self, name: str, member: str | None = None, problem: Problem | None = None) -> str:
        """Run a member in a worker process; say what is wrong with it, the empty text if nothing.

        On the design's small problem unless one is given; each is run once.
        """
        design, unit = self.design(name), self.unit(name, member)
        tried = Problem(**design.small) if problem is None else problem
        where = f"{unit.kernel} on {tried.key}"
        if where not in self._faults:
            rng = np.random.default_rng()
            inputs = design.data(tried, design.constants, rng)
            try:
                outputs = self.run_apart(name, tried, inputs, member)
            except MemberFault as fault:
                told = str(fault)
            else:
                told = design.verify(tried, design.constants, inputs, outputs, rng)
            self._faults[where] = f"{where}: {told}" if told else ""
        return self._faults[where]

    def load(
        self,
        device: Device,
        name: str = KitTable.name,
        member: str | None = None,
        problem: Problem | None = None,
    ) -> LoadedKernel:
        """Load a member in this process, once a worker process has seen it through.

        What is wrong there may hang or crash, and this process is to live.
        """
        self.need(name, member)
        told = self.fault(name, member, problem)
        assert not told, told
        return device.load(self.code(name, member), self.unit(name, member).entry)

    def need(self, name: str, member: str | None = None) -> None:
        """Skip the test where a member is not right on the design's small problem."""
        told = self.fault(name, member)
        if told:
            skip_for(told, "", _RUNS)

    def run(
        self, device: Device, name: str, problem: Problem, inputs: Arrays, member: str | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run a member once on poisoned outputs and return what is written or updated."""
        self.load(device, name, member, problem)
        return self.run_unseen(device, name, problem, inputs, member)

    def run_unseen(
        self, device: Device, name: str, problem: Problem, inputs: Arrays, member: str | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run a member as `run` does, whatever a worker process had to say of it."""
        design = self.design(name)
        arrays = {
            argument.name: self.buffer(device, design, problem, inputs, argument)
            for argument in design.arguments
        }
        kernel = device.load(self.code(name, member), self.unit(name, member).entry)
        launch = self.launch(name, problem, member)
        sizes = [problem.sizes[size] for size in design.problem]
        device.launcher(kernel, launch, list(arrays.values()), sizes)()
        device.synchronize()
        results = [device.to_host(arrays[argument.name]) for argument in _written(design)]
        return _shaped(design, problem, results)

    def run_apart(
        self, name: str, problem: Problem, inputs: Arrays, member: str | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run a member as `run` does, in a worker process.

        Raises
        ------
        MemberFault
            It could not be launched, did not end, or ended its process.
        """
        design, unit = self.design(name), self.unit(name, member)
        places = tuple(range(len(design.arguments)))
        launch = self.launch(name, problem, member)
        sizes = tuple(problem.sizes[size] for size in design.problem)
        step = Step(self.code(name, member), unit.entry, launch, places, sizes)
        buffers = tuple(
            inputs[argument.name] if argument.name in inputs else _nbytes(design, problem, argument)
            for argument in design.arguments
        )
        written = tuple(at for at in places if design.arguments[at].access != "read")
        return _shaped(design, problem, self._worker.run(Job((step,), buffers, written)))

    def launch(self, name: str, problem: Problem, member: str | None = None) -> Launch:
        """Return how a member is launched on a problem."""
        family, parameters = self.settings.family(name), self._member(name, member).parameters
        return self.registry.launch_for(family, self.backend.dialect, parameters, problem)

    def buffer(
        self,
        device: Device,
        design: KitDesign,
        problem: Problem,
        inputs: Arrays,
        argument: Argument,
    ) -> DeviceArray:
        """Return an argument on the device: a copy of an input, or poisoned bytes."""
        if argument.name in inputs:
            return device.from_host(inputs[argument.name])
        return device.allocate(_nbytes(design, problem, argument), poisoned=True)

    def _file(self, unit: KernelUnit) -> Path:
        return self._directory / f"{unit.kernel}.code"

    def _member(self, name: str, member: str | None) -> Member:
        family = self.settings.family(name)
        chosen = family.members[0] if member is None else family.member(member)
        assert chosen is not None
        return chosen


def _written(design: KitDesign) -> list[Argument]:
    return [argument for argument in design.arguments if argument.access != "read"]


def _nbytes(design: KitDesign, problem: Problem, argument: Argument) -> int:
    shape = design.shapes(problem, design.constants)[argument.name]
    return math.prod(shape) * host_dtype(argument.dtype).itemsize


def _shaped(
    design: KitDesign, problem: Problem, results: Sequence[NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return what was written, by name, from bytes or whatever else a device gave."""
    shapes = design.shapes(problem, design.constants)
    made: dict[str, NDArray[Any]] = {}
    for argument, raw in zip(_written(design), results, strict=True):
        data = np.ascontiguousarray(raw).tobytes()
        typed = np.frombuffer(data, host_dtype(argument.dtype))
        made[argument.name] = typed.reshape(shapes[argument.name])
    return made
