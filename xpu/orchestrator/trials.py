"""Makes the trial of a family on one device: data, preparation, worker, timer."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from xpu.adaptor import Built
from xpu.choice import KernelTrial, MemberFault, Subject, Worker
from xpu.choice.shape_choice import BUDGET_S
from xpu.choice.trial import Trial
from xpu.errors import XpuConfigError, XpuLaunchException, XpuPluginError
from xpu.measure import KernelTimer
from xpu.model import Family, MemberResult, ShapeCandidate, nearest
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.weights import Preparer
from xpu.registry import fault_of, routes_in
from xpu.spec import Argument, Device

if TYPE_CHECKING:
    import numpy as np

    from xpu.spec.design import Arrays


_MEMORY_SHARE: Final = 8
"""A problem is tried when its arrays take one part in this many of the device's memory: a
trial holds inputs, prepared weights and results twice, here and in the worker process."""


TOO_LARGE: Final = (
    "it is too large to be timed: its arrays take more than one part in "
    f"{_MEMORY_SHARE} of the device's memory"
)


class LazyTrial:
    """A trial that makes its data when it is first asked: an answer may be stored already."""

    def __init__(self, make: Callable[[], KernelTrial]) -> None:
        self._make = make
        self._made: KernelTrial | MemberFault | XpuPluginError | None = None

    def check(self, candidate: ShapeCandidate) -> bool:
        """Check a member; see `KernelTrial.check`."""
        return self._trial().check(candidate)

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a launch; see `KernelTrial.time_ns`."""
        return self._trial().time_ns(candidate)

    def _trial(self) -> KernelTrial:
        if self._made is None:
            try:
                self._made = self._make()
            except XpuPluginError as error:
                self._made = error
            except Exception as error:
                # It would fail for every member alike, and is no member's fault.
                self._made = MemberFault.of(error, "failed")
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


class Trials:
    """Trials of families on one device."""

    def __init__(self, assembly: Assembly, device: Device, index: int) -> None:
        self._assembly = assembly
        self._device = device
        adaptor = assembly.adaptor
        self._worker: Final = Worker(adaptor.backend, index, runtime=adaptor.runtime)
        self.timer = KernelTimer(device.timer())
        self._preparers: dict[str, Preparer] = {}
        self._lock = threading.Lock()

    def trim(self) -> None:
        """Give back what is kept to try again soon; the next trial starts a worker anew."""
        self._worker.rest()
        self._device.trim()

    def close(self) -> None:
        """Stop the worker process."""
        self._worker.close()

    def preparer(self, family: Family) -> Preparer | None:
        """Return a family's weight preparation, built at first use; None when it has none.

        Raises
        ------
        XpuBuildError
            It does not compile.
        XpuLaunchException
            It crashed or hung in an earlier trial.
        """
        with self._lock:
            made = self._preparers.get(family.name)
            # The worker process loads the file again: somebody may have emptied the cache.
            if made is None or not made.built.code.is_file():
                adaptor, family = self._assembly.adaptor, self._in_dialect(family)
                built = adaptor.preparation(family, adaptor.native_target())
                if built is None:
                    return None
                self._refuse_condemned(family, built)
                design = self._assembly.registry.design_of(family)
                made = Preparer(self._device, family, design, self._assembly.dialect, built)
                self._preparers[family.name] = made
            return made

    def _in_dialect(self, family: Family) -> Family:
        """Return a family of routes with the design of its first one that serves here."""
        routes = routes_in(self._assembly.registry, family, self._assembly.dialect)
        return attrs.evolve(family, design=routes[0].family.design) if routes else family

    def _refuse_condemned(self, family: Family, built: Built) -> None:
        proof = self._assembly.proofs(family).find(built.manifest.code_hash)
        if proof is not None and proof.status != "well":
            again = f"; mend it, or delete {proof.path}, to try it again" if proof.path else ""
            raise XpuLaunchException(
                f"family {family.name!r}: its weight preparation {proof.status}: "
                f"{proof.note}{again}"
            )

    def identity(self, assembled: Assembled) -> Mapping[str, str]:
        """Return what an answer rests on beside the members' code."""
        dtypes = " ".join(argument.dtype for argument in assembled.design.arguments)
        return {**self._device.identity(), "dtypes": dtypes}

    def trial(self, assembled: Assembled, memory: str, data: Arrays | None) -> LazyTrial | None:
        """Return a trial of the built members on fresh random data, or on `data` where given.

        None when the problem is too large to be tried beside a program that uses it.

        Raises
        ------
        XpuConfigError
            An array of `data` is not what the design reads on this problem.
        """
        design, problem = assembled.design, assembled.problem
        touched = design.bytes_touched(problem, assembled.family.constants)
        if touched > (self._device.facts.memory_bytes or math.inf) / _MEMORY_SHARE:
            return None
        _check_data(assembled, data or {})
        # Built here: where it cannot be, no member is to blame.
        preparer = self.preparer(assembled.family)
        return LazyTrial(lambda: self._made(assembled, memory, data, preparer))

    def timed(self, assembled: Assembled, memory: str) -> tuple[MemberResult, ...]:
        """Check and time every survivor; nothing is recalled, decided or kept."""
        survivors = [verdict.candidate for verdict in assembled.filter.survivors]
        probe = self.trial(assembled, memory, None)
        if probe is None:
            return tuple(MemberResult(one.name, note=TOO_LARGE) for one in survivors)
        return Trial(survivors, probe, preferred=0, budget_s=BUDGET_S).run().members

    def _made(
        self,
        assembled: Assembled,
        memory: str,
        data: Arrays | None,
        preparer: Preparer | None,
    ) -> KernelTrial:
        import numpy as np

        rng = np.random.default_rng()
        return KernelTrial(
            self._device,
            _subject(assembled, data, rng, preparer),
            {name: assembled.arm(name) for name in assembled.built},
            proofs=self._assembly.proofs(assembled.family),
            worker=self._worker,
            timer=self.timer,
            rng=rng,
            memory=memory,
        )


def _check_data(assembled: Assembled, data: Arrays) -> None:
    """Refuse arrays that a launch would read beyond: a member would be blamed for the crash."""
    where = f"{assembled.family.name} {assembled.problem.key}: data"
    read = [each.name for each in _read(assembled)]
    for name in data:
        if name not in read:
            raise XpuConfigError(
                f"{where}: no argument that is read is called {name!r}; {nearest(name, read)}"
            )
    why = _misfit(assembled, data)
    if why:
        raise XpuConfigError(f"{where}: {why}")


def _read(assembled: Assembled) -> list[Argument]:
    return [each for each in assembled.design.arguments if each.access != "write"]


def _misfit(assembled: Assembled, data: Mapping[str, Any]) -> str:
    """Say which array is not what a launch reads; the empty text when all are."""
    shapes = assembled.design.shapes(assembled.problem, assembled.family.constants)
    for argument in _read(assembled):
        array: Any = data.get(argument.name)
        shape = tuple(shapes[argument.name])
        given, is_right = type(array).__name__, False
        if hasattr(array, "dtype") and hasattr(array, "shape"):
            given = f"{array.dtype} {tuple(array.shape)}"
            is_right = argument.takes(str(array.dtype)) and tuple(array.shape) == shape
        if argument.name in data and not is_right:
            return f"{argument.name!r} is {argument.dtype} {shape}, given {given}"
    return ""


def _subject(
    assembled: Assembled,
    data: Arrays | None,
    rng: np.random.Generator,
    preparer: Preparer | None,
) -> Subject:
    design, family, problem = assembled.design, assembled.family, assembled.problem
    inputs = dict(design.data(problem, family.constants, rng))
    missing = [each.name for each in _read(assembled) if each.name not in inputs]
    why = f"nothing for {', '.join(missing)}" if missing else _misfit(assembled, inputs)
    if why:
        raise fault_of(design, "data()", f"gave what no launch can read: {why}")
    inputs.update(data or {})
    subject = Subject(design, family.constants, problem, inputs, has_given_data=bool(data))
    if preparer is None:
        return subject
    raw_shape = inputs[preparer.argument.name].shape
    return attrs.evolve(
        subject,
        preparation=preparer.arm(raw_shape),
        prepared_bytes=preparer.prepared_bytes(raw_shape),
    )
