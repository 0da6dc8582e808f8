"""What the runner of probes needs of whoever measures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from xpu.choice import ShapeChoice
from xpu.choice.foreign_load import LoadWatch
from xpu.filter import ShapeFilter
from xpu.measure import KernelTimer
from xpu.model import ChoiceResult, MemberResult, Problem, ShapeCandidate
from xpu.probes import ProbeOutcome
from xpu.spec import Device
from xpu.store import build_id as condensed

if TYPE_CHECKING:
    from xpu.orchestrator.orchestrator import Orchestrator
    from xpu.spec.design import Arrays

_LOGGER: Final = logging.getLogger("xpu")


_KEPT: Final[WeakKeyDictionary[Device, dict[str, str]]] = WeakKeyDictionary()
"""Answers of probes that are kept in memory, for as long as the device is open."""


class Host:
    """Carries a probe's requests to what serves them; see `xpu.probes.ProbeHost`."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        choice: ShapeChoice,
        device: Device,
        timer: KernelTimer,
    ) -> None:
        self._orchestrator = orchestrator
        self._choice = choice
        self._store = orchestrator.store
        self._device = device
        self._timer = timer
        self._is_contended = self._is_answered = False

    @property
    def dialect(self) -> str:
        """The dialect that the backend takes."""
        return self._orchestrator.backend.dialect

    def choose(
        self, family: str, problem: Problem, *, memory: str | None, data: Arrays | None
    ) -> ChoiceResult:
        """Recall or time the answer for a problem."""
        return self._orchestrator.choose(family, problem, memory=memory, data=data)

    def measure(self, family: str, problem: Problem, *, memory: str) -> Sequence[MemberResult]:
        """Check and time every member that can serve; beside others' work no answer is kept."""
        if not self._orchestrator.considered(family, problem).survivors:
            return ()
        watch = LoadWatch(self._device.foreign_load)
        watch.sample()
        results = self._orchestrator.time_members(family, problem.key, memory)
        watch.sample()
        # What is measured after an answer was given belongs to the next one.
        self._is_contended = watch.is_contended or (self._is_contended and not self._is_answered)
        self._is_answered = False
        return results

    def code_of(self, family: str, problem: Problem) -> str:
        """Return a text that changes when the code of a member that can serve does."""
        kept = self._orchestrator.considered(family, problem).survivors
        return condensed({}, {it.candidate.name: _code(it.candidate) for it in kept})

    def bind_problem(self, family: str, problem: Problem, *, memory: str | None) -> Any:
        """Return the bound kernel that serves a problem."""
        return self._orchestrator.bind(family, memory=memory, **problem.sizes)

    def compare(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables in place and remember the fastest."""
        shapes = ShapeFilter(name, self._device.facts, Problem(arms=len(arms)), rules=())
        for arm in arms:
            shapes.consider(ShapeCandidate(arm, code_hash=build_id))
        probe = _InPlace(arms, self._timer)
        return self._choice.choose(shapes, probe, identity=self._device.identity())

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer; with no store it lasts as long as the process does not ask again."""
        if self._store is not None and not self._was_contended():
            self._store.remember(name, value, self._rests_on(build_id), **notes)

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer."""
        if self._store is None:
            return None
        entry = self._store.recall(name, self._rests_on(build_id))
        return None if entry is None else entry.value

    def keep(self, name: str, value: str) -> None:
        """Keep an answer in memory, for this device."""
        if not self._was_contended():
            _KEPT.setdefault(self._device, {})[name] = value

    def kept(self, name: str) -> str | None:
        """Return an answer that is kept in memory."""
        return _KEPT.get(self._device, {}).get(name)

    def _was_contended(self) -> bool:
        """Whether others held the device during what was measured for the answer at hand."""
        self._is_answered = True
        return self._is_contended

    def _rests_on(self, own: str) -> str:
        """Add to a probe's build what it cannot know: device, driver, threads, power mode."""
        return condensed({**self._device.identity(), "probe": own}, {})

    def hold(self) -> AbstractContextManager[None]:
        """Serve defaults untimed."""
        return self._choice.hold()


def answers_of(outcomes: Iterable[ProbeOutcome]) -> list[ChoiceResult]:
    """Return what probes gave; one that failed is told of on the logger."""
    results = []
    for outcome in outcomes:
        if outcome.result is None:
            _LOGGER.warning("probe %s: %s", outcome.probe, outcome.error)
        else:
            results.append(outcome.result)
    return results


def _code(candidate: ShapeCandidate) -> str:
    return f"{candidate.library or ''} {candidate.code_hash or ''}"


class _InPlace:
    """Times callables that do the same work where they stand."""

    def __init__(self, arms: Mapping[str, Callable[[], None]], timer: KernelTimer) -> None:
        self._arms = arms
        self._timer = timer

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a call, from one bracket."""
        return self._timer.time_ns(self._arms[candidate.name])
