"""Builds and runs the kit's kernels on a backend under test.

What the backend cannot do is a skipped test that says why; what it does wrong is for the
suites to assert.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.adaptor.units import member_unit
from xpu.errors import XpuBuildError
from xpu.model import Problem
from xpu.orchestrator import settings_for
from xpu.spec import (
    Backend,
    CompiledCode,
    Compiler,
    Device,
    DeviceArray,
    KernelSource,
    KernelUnit,
    Launch,
    LoadedKernel,
)
from xpu.testing.designs import KitDesign, KitInPlace, KitTable
from xpu.testing.plugins import registry_of
from xpu.testing.simt_designs import KitMatrix, KitVerbs

DEADLINE_S: Final = 120.0
Arrays = Mapping[str, NDArray[Any]]


class Workbench:
    """A backend, the kit's designs, and a directory for what is built.

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
        designs = (KitTable(), KitInPlace(), KitMatrix(), KitVerbs())
        toml = Path(__file__).with_name("kit.toml")
        self.backend = backend
        self.registry = registry_of(backend, *designs, *named, toml)
        self.settings = settings_for(self.registry)
        self._target = target
        self._directory = directory
        self._built: dict[tuple[str, str], Path] = {}

    @property
    def compiler(self) -> Compiler:
        """The compiler half; the test is skipped where there is none."""
        try:
            return self.backend.compiler()
        except XpuBuildError as error:
            pytest.skip(f"backend {self.backend.name!r} has no compiler here: {error}")

    @property
    def target(self) -> str:
        """What to compile for."""
        return self._target or self.compiler.native_target()

    def design(self, name: str) -> KitDesign:
        """Return a design of the kit; the test is skipped where no kernel of it is at hand."""
        design = self.registry.design(name)
        assert isinstance(design, KitDesign)
        if self.registry.source_for(name, self.backend.dialect) is None:
            pytest.skip(
                f"{design.what}: no kernel for {name!r} in dialect {self.backend.dialect!r}; "
                f"hand one in: kernels = (KernelSource({self.backend.dialect!r}, text, "
                f"design={name!r}),)"
            )
        return design

    def members(self, name: str) -> tuple[str, ...]:
        """Name the members of a design's family."""
        return tuple(member.name for member in self.settings.family(name).members)

    def unit(self, name: str = KitTable.name, member: str | None = None) -> KernelUnit:
        """Return a member to compile; the first when None."""
        design, family = self.design(name), self.settings.family(name)
        source = self.registry.source_for(name, self.backend.dialect)
        chosen = family.members[0] if member is None else family.member(member)
        assert source is not None
        assert chosen is not None
        return member_unit(family, design, source, chosen)

    def compiled(self, *units: KernelUnit, deadline_s: float = DEADLINE_S) -> list[Any]:
        """Compile units in one batch."""
        return list(self.compiler.compile(units, self.target, deadline_s=deadline_s))

    def code(self, name: str = KitTable.name, member: str | None = None) -> Path:
        """Compile a member that has to compile, and return the file with its code."""
        unit = self.unit(name, member)
        place = self._built.get((name, unit.kernel))
        if place is None:
            (result,) = self.compiled(unit)
            assert isinstance(result, CompiledCode), f"{unit.kernel} does not compile: {result}"
            place = self._directory / f"{unit.kernel}.code"
            place.write_bytes(result.code)
            self._built[name, unit.kernel] = place
        return place

    def load(
        self, device: Device, name: str = KitTable.name, member: str | None = None
    ) -> LoadedKernel:
        """Load a member on a device."""
        return device.load(self.code(name, member), self.unit(name, member).entry)

    def run(
        self, device: Device, name: str, problem: Problem, inputs: Arrays, member: str | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run a member once on poisoned outputs and return what is written or updated."""
        design = self.design(name)
        arrays = {arg.name: self.buffer(device, design, problem, inputs, arg.name)
                  for arg in design.arguments}  # fmt: skip
        kernel = self.load(device, name, member)
        launch = self.launch(name, problem, member)
        sizes = [problem.sizes[size] for size in design.problem]
        device.launcher(kernel, launch, list(arrays.values()), sizes)()
        device.synchronize()
        shapes = design.shapes(problem, design.constants)
        return {
            arg.name: np.frombuffer(
                np.ascontiguousarray(device.to_host(arrays[arg.name])).tobytes(), arg.dtype
            ).reshape(shapes[arg.name])
            for arg in design.arguments
            if arg.access != "read"
        }

    def launch(self, name: str, problem: Problem, member: str | None = None) -> Launch:
        """Return how a member is launched on a problem."""
        family = self.settings.family(name)
        chosen = family.members[0] if member is None else family.member(member)
        assert chosen is not None
        return self.registry.launch_for(name, self.backend.dialect, chosen.parameters, problem)

    def buffer(
        self, device: Device, design: KitDesign, problem: Problem, inputs: Arrays, name: str
    ) -> DeviceArray:
        """Return an argument on the device: a copy of an input, or poisoned bytes."""
        if name in inputs:
            return device.from_host(inputs[name])
        argument = next(each for each in design.arguments if each.name == name)
        shape = design.shapes(problem, design.constants)[name]
        nbytes = math.prod(shape) * np.dtype(argument.dtype).itemsize
        return device.allocate(nbytes, poisoned=True)
