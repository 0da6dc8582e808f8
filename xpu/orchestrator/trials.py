"""Makes the trial of a family on one device: data, preparation, worker, timer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from xpu.choice import Arm, KernelTrial, Subject, Worker
from xpu.measure import KernelTimer
from xpu.model import Family, ShapeCandidate
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.weights import Preparer
from xpu.spec import Device

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


class LazyTrial:
    """A trial that makes its data when it is first asked: an answer may be stored already."""

    def __init__(self, make: Callable[[], KernelTrial]) -> None:
        self._make = make
        self._made: KernelTrial | None = None

    def check(self, candidate: ShapeCandidate) -> bool:
        """Check a member; see `KernelTrial.check`."""
        return self._trial().check(candidate)

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a launch; see `KernelTrial.time_ns`."""
        return self._trial().time_ns(candidate)

    def _trial(self) -> KernelTrial:
        if self._made is None:
            self._made = self._make()
        return self._made


class Trials:
    """Trials of families on one device."""

    def __init__(self, assembly: Assembly, device: Device, index: int) -> None:
        self._assembly = assembly
        self._device = device
        self._worker: Final = Worker(assembly.adaptor.backend, index)
        self.timer = KernelTimer(device.timer())
        self._preparers: dict[str, Preparer | None] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop the worker process."""
        self._worker.close()

    def preparer(self, family: Family) -> Preparer | None:
        """Return a family's weight preparation, built at first use; None when it has none."""
        with self._lock:
            if family.name not in self._preparers:
                adaptor = self._assembly.adaptor
                built = adaptor.preparation(family, adaptor.native_target())
                design = self._assembly.registry.design(family.design)
                self._preparers[family.name] = (
                    None if built is None else Preparer(self._device, family, design, built)
                )
            return self._preparers[family.name]

    def identity(self, assembled: Assembled) -> Mapping[str, str]:
        """Return what an answer rests on beside the members' code."""
        dtypes = " ".join(argument.dtype for argument in assembled.design.arguments)
        return {**self._device.identity(), "dtypes": dtypes}

    def trial(self, assembled: Assembled, memory: str, data: Arrays | None) -> LazyTrial:
        """Return a trial of the built members on fresh random data, or on `data` where given."""
        return LazyTrial(lambda: self._made(assembled, memory, data))

    def _made(self, assembled: Assembled, memory: str, data: Arrays | None) -> KernelTrial:
        rng = np.random.default_rng()
        return KernelTrial(
            self._device,
            self._subject(assembled, data, rng),
            {name: self._arm(assembled, name) for name in assembled.built},
            proofs=self._assembly.proofs,
            worker=self._worker,
            timer=self.timer,
            rng=rng,
            memory=memory,
        )

    def _subject(
        self, assembled: Assembled, data: Arrays | None, rng: np.random.Generator
    ) -> Subject:
        design, family = assembled.design, assembled.family
        inputs = dict(design.data(assembled.problem, family.constants, rng))
        inputs.update(data or {})
        preparer = self.preparer(family)
        if preparer is None:
            return Subject(design, family.constants, assembled.problem, inputs)
        raw_shape = inputs[preparer.argument.name].shape
        return Subject(
            design,
            family.constants,
            assembled.problem,
            inputs,
            preparer.arm(raw_shape),
            preparer.prepared_bytes(raw_shape),
        )

    def _arm(self, assembled: Assembled, name: str) -> Arm:
        built = assembled.built[name]
        return Arm(
            built.code,
            built.manifest.entry,
            built.manifest.code_hash,
            assembled.launch(name),
            assembled.sizes,
        )
