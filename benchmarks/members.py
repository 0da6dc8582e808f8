"""A family's members on a problem, checked, and read in interleaved rounds.

What a choice is made with (assembly, check, cold copies, clock), without its end: no member
leaves, nothing is decided. The benchmarks beside it import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from turns import LEAST_ROUNDS, Times, interleaved

from xpu import Problem
from xpu.adaptor import Adaptor, BuildCache
from xpu.choice import MemberFault
from xpu.errors import XpuError
from xpu.model import ShapeCandidate
from xpu.orchestrator import pick_backend, settings_for
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.trials import Trials
from xpu.registry import default_registry


class Bench:
    """A device, and what considers and times families on it."""

    def __init__(self, backend: str | None) -> None:
        self.registry = default_registry()
        self.settings = settings_for(self.registry)
        self.backend = pick_backend(self.registry, backend)
        self.device = self.backend.open()
        adaptor = Adaptor(self.backend, self.registry, BuildCache())
        self._assembly = Assembly(self.settings, self.registry, self.device, adaptor)
        self.trials = Trials(self._assembly, self.device, 0)

    def assembled(self, family: str, problem: Problem) -> Assembled:
        """Build a family's members and consider them for a problem."""
        return self._assembly.assemble(self.settings.family(family), problem)

    def members(self, family: str, problem: Problem, memory: str) -> Members:
        """Return the survivors of a family on a problem, on fresh random data."""
        return Members(self.trials, self.assembled(family, problem), memory)

    def close(self) -> None:
        """Stop the worker process and close the device."""
        self.trials.close()
        self.device.close()


class Members:
    """The survivors of one family on one problem.

    Attributes
    ----------
    names
        Those that may be read: all survivors, and after `check` the ones that are right.
    faults
        Why the others may not, by name.
    """

    def __init__(self, trials: Trials, assembled: Assembled, memory: str) -> None:
        self.assembled = assembled
        self._survivors = {
            verdict.candidate.name: verdict.candidate for verdict in assembled.filter.survivors
        }
        self.names = list(self._survivors)
        self.faults: dict[str, str] = {}
        probe = trials.trial(assembled, memory, None)
        if probe is None:
            raise XpuError(f"{assembled.family.name} {assembled.problem.key} is too large to time")
        self._probe = probe

    def check(self) -> None:
        """Compare every member with the reference; one that is wrong is not read."""
        for name in tuple(self.names):
            try:
                self._probe.check(self._survivors[name])
            except MemberFault as fault:
                self.names.remove(name)
                self.faults[name] = f"{fault.status}: {fault.note}"

    def read(self, seconds: float, least: int = LEAST_ROUNDS) -> Times:
        """Return microseconds (rounds, names) of one launch; NaN where a bracket was not had."""
        if not self.names:
            return np.empty((0, 0))
        readers = [partial(self._reading_us, self._survivors[name]) for name in self.names]
        return interleaved(readers, seconds, least)

    def _reading_us(self, candidate: ShapeCandidate) -> float:
        try:
            return self._probe.time_ns(candidate) / 1e3
        except XpuError as error:
            self.faults[candidate.name] = str(error)
            return float("nan")


def medians_us(times: Times) -> Sequence[float]:
    """Return the median of each member, NaN of one that was never read."""
    columns = [column[np.isfinite(column)] for column in times.T]
    return [float(np.median(column)) if len(column) else float("nan") for column in columns]
