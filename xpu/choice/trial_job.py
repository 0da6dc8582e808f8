"""The job that runs a member once on fresh data: prepare, stage, launch, give the results back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from xpu.choice.job import Job, Step
from xpu.choice.packing import Arm
from xpu.model import Constant, Problem
from xpu.spec import Argument, Design, DeviceArray, host_dtype

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


@attrs.frozen
class Subject:
    """What is tried: a design with a family's constants, on a problem, with these inputs.

    `has_given_data`: some inputs are a caller's own, so numbers that look wrong may be theirs.
    """

    design: Design
    constants: Mapping[str, Constant]
    problem: Problem
    inputs: Arrays
    preparation: Arm | None = None
    prepared_bytes: int = 0
    has_given_data: bool = False

    @property
    def written(self) -> tuple[Argument, ...]:
        """The arguments that a launch writes."""
        return tuple(arg for arg in self.design.arguments if arg.access != "read")

    def is_prepared(self, argument: Argument) -> bool:
        """Whether an argument is repacked before a member reads it."""
        preparation = self.design.preparation
        return bool(self.preparation and preparation and argument.name == preparation.argument)

    def bytes_of(self, argument: Argument) -> int:
        """Return the size of an argument in bytes, as a caller gives it."""
        shape = self.design.shapes(self.problem, self.constants)[argument.name]
        return math.prod(shape) * host_dtype(argument.dtype).itemsize


def trial_job(
    subject: Subject, arm: Arm, held: Mapping[str, DeviceArray] = MappingProxyType({})
) -> Job:
    """Return the job that runs a member once; its results are the arguments that are written.

    `held` are arguments that are only read and lie on the device as members read them, weights
    prepared: such a job runs in this process.
    """
    buffers: list[Any] = []
    steps: list[Step] = []
    taken: list[int] = []

    def fresh(buffer: Any) -> int:
        buffers.append(buffer)
        return len(buffers) - 1

    for argument in subject.design.arguments:
        if argument.name in held:
            taken.append(fresh(held[argument.name]))
            continue
        is_read = argument.access != "write"
        place = fresh(subject.inputs[argument.name] if is_read else subject.bytes_of(argument))
        if subject.preparation is not None and subject.is_prepared(argument):
            steps.append(step_of(subject.preparation, (place, fresh(subject.prepared_bytes))))
            place = len(buffers) - 1
        taken.append(place)
    results = tuple(taken[subject.design.arguments.index(each)] for each in subject.written)
    for staging in arm.staging:
        pair = (taken[staging.place], fresh(staging.nbytes))
        steps.append(Step(staging.code, staging.entry, staging.launch, pair, staging.sizes))
        taken[staging.place] = pair[1]
    steps.append(step_of(arm, tuple(taken)))
    return Job(tuple(steps), tuple(buffers), results)


def step_of(arm: Arm, buffers: tuple[int, ...]) -> Step:
    """Return the launch of an arm alone."""
    return Step(arm.code, arm.entry, arm.launch, buffers, arm.sizes)
