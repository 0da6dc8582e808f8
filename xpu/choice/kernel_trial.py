"""The probe behind a real trial: checks and times a family's members on a device.

`ShapeChoice` asks it for one check a member and for brackets; it knows nothing of rounds.
Code that has never run well goes to the worker process first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from xpu.choice.copies import BufferSets, Rotation
from xpu.choice.fault import MemberFault
from xpu.choice.job import LAUNCH, Job, launch_once, loaded, run_job
from xpu.choice.packing import Arm, Packer
from xpu.choice.proofs import Proofs
from xpu.choice.trial_job import Subject, step_of, trial_job
from xpu.choice.worker import Worker
from xpu.errors import XpuPluginError
from xpu.measure import KernelTimer, Turn, rotation_count
from xpu.model import ShapeCandidate
from xpu.registry import blaming
from xpu.spec import Device, DeviceArray, host_dtype, is_float

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_MEMORY_SHARE: Final = 4
"""Copies for a cold trial may fill one part in this many of the device's memory."""

_MOST_COPIES: Final = 8192
"""Copies that are made however little a launch touches: each that is taken has a packed launch for
every member. A launch that touches less than one part in 2,000 of the cache is then read warmer
than cold, and of so small a one the cost of launching counts."""

_OPERATIONS_PER_S: Final = 1e9
"""Slowest pace at which a member is not yet taken to hang. Source: portable code of the
shipped families makes ten times as many on one core."""


class KernelTrial:
    """Checks and times members; an object that `ShapeChoice.choose` takes as its probe."""

    def __init__(
        self,
        device: Device,
        subject: Subject,
        arms: Mapping[str, Arm],
        *,
        proofs: Proofs,
        worker: Worker,
        timer: KernelTimer,
        rng: np.random.Generator,
        memory: str = "warm",
    ) -> None:
        self._device = device
        self._subject = subject
        self._arms = arms
        self._proofs = proofs
        self._worker = worker
        self._timer = timer
        self._rng = rng
        self._memory = memory
        # One for all arms: where one has just read, none reads next, fast or slow.
        self._turn = Turn()
        self._held: dict[str, DeviceArray] = {}
        self._sets: BufferSets | None = None
        self._launches: dict[str, Rotation] = {}

    @property
    def copies(self) -> int:
        """How many copies of the inputs a timed bracket goes round."""
        if self._memory != "cold":
            return 1
        subject, facts = self._subject, self._device.facts
        touched = max(1, subject.design.bytes_touched(subject.problem, subject.constants))
        wanted = rotation_count(facts.last_level_cache_bytes, touched)
        most = (facts.memory_bytes or 1 << 33) // _MEMORY_SHARE // touched
        return max(1, min(wanted, most, _MOST_COPIES))

    def check(self, candidate: ShapeCandidate) -> bool:
        """Run a member once on poisoned outputs and compare with the host reference.

        Raises
        ------
        MemberFault
            The member is wrong, hangs, crashes or cannot be launched.
        """
        arm = self._arms[candidate.name]
        proof = self._proofs.find(arm.code_hash)
        if proof is not None and proof.status != "well":
            raise MemberFault(proof.status, proof.note)
        self._prove_preparation()
        if self._proofs.is_lapsed(arm.code_hash):
            self._proofs.forget(arm.code_hash)
        try:
            fault = self._fault_here(arm) if proof is not None else self._fault_there(arm)
            if fault:
                raise MemberFault("wrong", fault)
        except XpuPluginError as cause:
            # Whoever failed, nobody looked at the numbers.
            raise MemberFault.of(cause, "failed") from cause
        except MemberFault as cause:
            is_codes_own = cause.status != "wrong" or not self._subject.has_given_data
            if cause.status != "failed" and is_codes_own:
                self._proofs.record(arm.code_hash, cause.status, cause.note)
            raise
        if proof is None:
            self._proofs.record(arm.code_hash, "well")
        return True

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a launch, from one bracket."""
        try:
            launches = self._launches.get(candidate.name)
            if launches is None:
                launches = self._launches[candidate.name] = self._rotation(candidate.name)
                with blaming(self._device, LAUNCH):
                    self._timer.warm_up(launches, turn=self._turn)
            with blaming(self._device, LAUNCH):
                return self._timer.time_ns(launches, turn=self._turn)
        except XpuPluginError as cause:
            raise MemberFault.of(cause, "failed") from cause

    def _prove_preparation(self) -> None:
        """Try the weight preparation by itself first: its fault is no member's."""
        arm, preparation = self._subject.preparation, self._subject.design.preparation
        if arm is None or preparation is None:
            return
        proof = self._proofs.find(arm.code_hash)
        if proof is None:
            raw = self._subject.inputs[preparation.argument]
            buffers = (raw, self._subject.prepared_bytes)
            try:
                self._run_there(Job((step_of(arm, (0, 1)),), buffers, ()))
            except MemberFault as cause:
                if cause.status == "failed":
                    raise
                self._proofs.record(arm.code_hash, cause.status, cause.note)
            else:
                self._proofs.record(arm.code_hash, "well")
            proof = self._proofs.find(arm.code_hash)
        if proof is not None and proof.status != "well":
            raise MemberFault("failed", f"the weight preparation {proof.status}: {proof.note}")

    def _fault_here(self, arm: Arm) -> str:
        """Run a member on the inputs that all share; one that is wrong, again on fresh ones.

        Another may have written into what it only reads, as this one may: what a wrong member
        leaves is neither checked nor timed with.
        """
        fault = ""
        for _ in range(2):
            fault = self._fault_of(self._run_here(arm))
            if not fault:
                break
            self._held.clear()
        return fault

    def _fault_there(self, arm: Arm) -> str:
        """Run a member in the worker process."""
        return self._fault_of(self._run_there(trial_job(self._subject, arm)))

    def _run_here(self, arm: Arm) -> list[Any]:
        try:
            return list(run_job(self._device, trial_job(self._subject, arm, self._inputs())))
        except Exception as cause:
            raise MemberFault.of(cause, "failed") from cause

    def _run_there(self, job: Job) -> list[Any]:
        self._held.clear()  # the worker brings its own: a large problem does not fit twice
        operations = self._subject.design.operations(self._subject.problem)
        return self._worker.run(job, work_s=operations / _OPERATIONS_PER_S)

    def _fault_of(self, results: Sequence[Any]) -> str:
        subject = self._subject
        shapes = subject.design.shapes(subject.problem, subject.constants)
        outputs: dict[str, NDArray[Any]] = {}
        for argument, raw in zip(subject.written, results, strict=True):
            if argument.access == "write":
                left = _poison_left(raw, argument.dtype)
                if left:
                    return f"{left} elements of {argument.name!r} were not written"
            typed = raw.view(host_dtype(argument.dtype))
            outputs[argument.name] = typed.reshape(shapes[argument.name])
        return subject.design.verify(
            subject.problem, subject.constants, subject.inputs, outputs, self._rng
        )

    def _rotation(self, name: str) -> Rotation:
        pack = Packer(self._device, self._arms[name])
        if self._sets is None:
            arguments = self._subject.design.arguments
            self._sets = BufferSets(self._device, arguments, self._buffers(), self.copies)
        return Rotation(pack, self._sets, self._timer.tier.stream)

    def _buffers(self) -> list[DeviceArray]:
        """Return the arguments of a launch."""
        subject, device, held = self._subject, self._device, self._inputs()
        made: list[DeviceArray] = []
        for argument in subject.design.arguments:
            if argument.access == "write":
                made.append(device.allocate(subject.bytes_of(argument)))
            elif argument.name in held:
                made.append(held[argument.name])
            else:
                made.append(device.from_host(subject.inputs[argument.name]))
        return made

    def _inputs(self) -> Mapping[str, DeviceArray]:
        """Return the arguments that are only read as they lie on the device, weights prepared."""
        subject = self._subject
        for argument in subject.design.arguments:
            if argument.access == "read" and argument.name not in self._held:
                array = self._device.from_host(subject.inputs[argument.name])
                if subject.preparation is not None and subject.is_prepared(argument):
                    array = self._prepare(subject.preparation, array)
                self._held[argument.name] = array
        return self._held

    def _prepare(self, arm: Arm, raw: DeviceArray) -> DeviceArray:
        prepared = self._device.allocate(self._subject.prepared_bytes)
        kernel = loaded(self._device, arm.code, arm.entry)
        launch_once(self._device, kernel, arm.launch, (raw, prepared), arm.sizes)
        return prepared


def _poison_left(raw: NDArray[Any], dtype: str) -> int:
    """Count the elements that still hold the poison; of whole numbers it cannot be told."""
    import numpy as np

    if not is_float(dtype):
        return 0
    words = raw.view(f"u{host_dtype(dtype).itemsize}")
    return int(np.count_nonzero(words == np.iinfo(words.dtype).max))
