"""Builds members of a family and runs them, each in a worker process first.

What does not compile, hangs, crashes or leaves its outputs unwritten is a failed test that
names the member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.adaptor import Adaptor, BuildCache, Called
from xpu.choice import MemberFault, Subject, Worker, trial_job
from xpu.errors import XpuBuildError
from xpu.model import LAUNCH_RECORDS, Family, Problem
from xpu.orchestrator.assembly import Assembly, arm_of
from xpu.orchestrator.weights import Preparer
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Argument, Backend, Design, Device, host_dtype, is_float
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

    def missing(self, family: Family, names: Sequence[str]) -> dict[str, str]:
        """Say of each member that calls a library which is not here what to install."""
        members = [member for member in family.members if member.name in names]
        results = self._adaptor.build(family, members, self._adaptor.native_target())
        return {
            name: result.missing
            for name, result in results.items()
            if isinstance(result, Called) and result.library is None
        }

    def is_split(self, family: Family, member: str, problem: Problem, splits: int) -> bool:
        """Whether a launch is another one when it is told of so many parts of k."""
        whole, parts = (
            self._registry.launch_for(family, self.backend.dialect, parameters, problem)
            for parameters in (_told(family, member, None), _told(family, member, splits))
        )
        return whole != parts

    def run(
        self,
        family: Family,
        member: str,
        problem: Problem,
        inputs: Arrays,
        splits: int | None = None,
    ) -> dict[str, Any]:
        """Run a member once on poisoned outputs and return what is written or updated.

        With `splits` it is launched as where the rules recorded that number of parts of k.
        """
        design = self._registry.designs[family.design].for_constants(family.constants)
        chosen = family.member(member)
        assert chosen is not None
        target = self._adaptor.native_target()
        built = self._adaptor.build(family, [chosen], target)[member]
        if isinstance(built, XpuBuildError) or self.compile_faults(family, ()):
            skip_for("does not compile", f"{family.name}.{member}", COMPILES)
        where = f"{built.kernel} on {problem.key}, backend {self.backend.name!r}"
        told = _told(family, member, splits)
        arm = arm_of(self._registry, family, self.backend.dialect, told, problem, built)
        job = trial_job(self._subject(family, design, problem, inputs), arm)
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
                .view(host_dtype(argument.dtype))
                .reshape(shapes[argument.name])
            )
        return outputs

    def _subject(self, family: Family, design: Design, problem: Problem, inputs: Arrays) -> Subject:
        subject = Subject(design, family.constants, problem, inputs)
        prepared = self._adaptor.preparation(family, self._adaptor.native_target())
        if design.preparation is None or prepared is None:
            return subject
        dialect = self.backend.dialect
        preparer = Preparer(self._device, family, design, dialect, prepared)
        raw = tuple(inputs[design.preparation.argument].shape)
        return attrs.evolve(
            subject,
            preparation=preparer.arm(raw),
            prepared_bytes=preparer.prepared_bytes(raw),
        )


def _told(family: Family, member: str, splits: int | None) -> dict[str, int]:
    """Return what a launch is told of a member."""
    chosen = family.member(member)
    assert chosen is not None
    return {
        **chosen.parameters,
        **({} if splits is None else dict.fromkeys(LAUNCH_RECORDS, splits)),
    }


def written(design: Design) -> list[Argument]:
    """Return the arguments that a launch writes or updates."""
    return [argument for argument in design.arguments if argument.access != "read"]


def _left(raw: NDArray[Any], argument: Argument) -> int:
    """Count elements that still hold poison; whole numbers may happen to look like it."""
    if not is_float(argument.dtype):
        return 0
    size = host_dtype(argument.dtype).itemsize
    rows = np.ascontiguousarray(raw).reshape(-1).view(np.uint8).reshape(-1, size)
    return int((rows == 0xFF).all(axis=1).sum())
