"""Builds members of a family and runs them, each in a worker process first.

What does not compile, hangs, crashes or leaves its outputs unwritten is a failed test that
names the member.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.adaptor import Adaptor, BuildCache, Built
from xpu.choice import MemberFault, Worker
from xpu.choice.job import Job, Step
from xpu.errors import XpuBuildError
from xpu.model import Family, Problem
from xpu.orchestrator.assembly import Assembly
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Argument, Backend, Design, Device, Launch
from xpu.testing.surroundings import skip_for

COMPILES: Final = "test_every_member_compiles"
Arrays = Mapping[str, NDArray[Any]]


class MemberRunner:
    """One backend with its open device and a worker process; close it."""

    def __init__(
        self, backend: Backend, registry: Registry, settings: Settings, cache: Path | None
    ) -> None:
        self.backend = backend
        self._registry = registry
        self._adaptor = Adaptor(backend, registry, BuildCache(cache))
        self._device: Device = backend.open(0)
        self._assembly = Assembly(settings, registry, self._device, self._adaptor)
        self._worker = Worker(backend, 0)

    def close(self) -> None:
        """Stop the worker process and close the device."""
        self._worker.close()
        self._device.close()

    def members(self, family: Family, problem: Problem) -> tuple[str, ...]:
        """Name the members that the device can launch on a problem, by what needs no code."""
        return self._assembly.eligible(family, problem)

    def compile_faults(self, family: Family, names: Sequence[str]) -> list[str]:
        """Compile members, and the preparation; say of each that does not why."""
        members = [member for member in family.members if member.name in names]
        results = self._adaptor.build(family, members, self._adaptor.native_target())
        faults = [str(result) for result in results.values() if isinstance(result, XpuBuildError)]
        try:
            self._adaptor.preparation(family, self._adaptor.native_target())
        except XpuBuildError as error:
            faults.append(str(error))
        return faults

    def run(self, family: Family, member: str, problem: Problem, inputs: Arrays) -> dict[str, Any]:
        """Run a member once on poisoned outputs and return what is written or updated."""
        design = self._registry.designs[family.design]
        chosen = family.member(member)
        assert chosen is not None
        target = self._adaptor.native_target()
        built = self._adaptor.build(family, [chosen], target)[member]
        if isinstance(built, XpuBuildError) or self.compile_faults(family, ()):
            skip_for("does not compile", f"{family.name}.{member}", COMPILES)
        where = f"{built.manifest.kernel} on {problem.key}, backend {self.backend.name!r}"
        launch = self._registry.launch_for(
            family.design, self.backend.dialect, chosen.parameters, problem
        )
        job = self._job(family, design, problem, inputs, built, launch)
        try:
            results = self._worker.run(job)
        except MemberFault as fault:
            pytest.fail(f"{where}: {fault}")
        shapes = design.shapes(problem, family.constants)
        outputs = {}
        for argument, raw in zip(written(design), results, strict=True):
            left = _left(raw, argument) if argument.access == "write" else 0
            assert not left, f"{where}: {left} elements of {argument.name!r} were not written"
            outputs[argument.name] = (
                np.ascontiguousarray(raw)
                .reshape(-1)
                .view(argument.dtype)
                .reshape(shapes[argument.name])
            )
        return outputs

    def _job(
        self,
        family: Family,
        design: Design,
        problem: Problem,
        inputs: Arrays,
        built: Built,
        launch: Launch,
    ) -> Job:
        preparation = design.preparation
        prepared = self._adaptor.preparation(family, self._adaptor.native_target())
        shapes = design.shapes(problem, family.constants)
        buffers: list[Any] = []
        steps: list[Step] = []
        taken: list[int] = []
        for argument in design.arguments:
            is_given = argument.access != "write"
            buffers.append(inputs[argument.name] if is_given else _nbytes(argument, shapes))
            taken.append(len(buffers) - 1)
            if preparation and prepared and argument.name == preparation.argument:
                raw = inputs[argument.name].shape
                buffers.append(preparation.prepared_bytes(raw, family.constants))
                sizes = preparation.sizes(raw, family.constants)
                pair = (taken[-1], len(buffers) - 1)
                steps.append(Step(prepared.code, prepared.manifest.entry, Launch(), pair, sizes))
                taken[-1] = len(buffers) - 1
        sizes = tuple(problem.sizes[name] for name in design.problem)
        steps.append(Step(built.code, built.manifest.entry, launch, tuple(taken), sizes))
        kept = zip(taken, design.arguments, strict=True)
        results = tuple(place for place, argument in kept if argument.access != "read")
        return Job(tuple(steps), tuple(buffers), results)


def written(design: Design) -> list[Argument]:
    """Return the arguments that a launch writes or updates."""
    return [argument for argument in design.arguments if argument.access != "read"]


def _nbytes(argument: Argument, shapes: Mapping[str, tuple[int, ...]]) -> int:
    return math.prod(shapes[argument.name]) * np.dtype(argument.dtype).itemsize


def _left(raw: NDArray[Any], argument: Argument) -> int:
    """Count elements that still hold poison; whole numbers may happen to look like it."""
    dtype = np.dtype(argument.dtype)
    if dtype.kind != "f":
        return 0
    rows = np.ascontiguousarray(raw).reshape(-1).view(np.uint8).reshape(-1, dtype.itemsize)
    return int((rows == 0xFF).all(axis=1).sum())
