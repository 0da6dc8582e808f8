"""What the runner of probes needs of whoever measures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from xpu.choice import ShapeChoice
from xpu.filter import ShapeFilter
from xpu.measure import KernelTimer
from xpu.model import ChoiceResult, Problem, ShapeCandidate
from xpu.orchestrator.bound import BoundKernel
from xpu.probes import ProbeOutcome
from xpu.spec import Device
from xpu.store import Autotune
from xpu.store import build_id as condensed

if TYPE_CHECKING:
    from xpu.spec.design import Arrays

_LOGGER: Final = logging.getLogger("xpu")


class Host:
    """Carries a probe's requests to what serves them; see `xpu.probes.ProbeHost`.

    `choose` and `bind` are an orchestrator's.
    """

    def __init__(
        self,
        choose: Callable[..., ChoiceResult],
        bind: Callable[..., BoundKernel],
        choice: ShapeChoice,
        store: Autotune | None,
        device: Device,
        timer: KernelTimer,
    ) -> None:
        self._choose = choose
        self._bind = bind
        self._choice = choice
        self._store = store
        self._device = device
        self._timer = timer

    def choose(
        self, family: str, problem: Problem, *, memory: str | None, data: Arrays | None
    ) -> ChoiceResult:
        """Recall or time the answer for a problem."""
        return self._choose(family, problem, memory=memory, data=data)

    def bind_problem(self, family: str, problem: Problem, *, memory: str | None) -> Any:
        """Return the bound kernel that serves a problem."""
        return self._bind(family, memory=memory, **problem.sizes)

    def compare(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables in place and remember the fastest."""
        shapes = ShapeFilter(name, self._device.facts, Problem(arms=len(arms)), rules=())
        for arm in arms:
            shapes.consider(ShapeCandidate(arm, code_hash=build_id))
        probe = _InPlace(arms, self._timer)
        return self._choice.choose(shapes, probe, identity=self._device.identity())

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer; with no store it lasts as long as the process does not ask again."""
        if self._store is not None:
            self._store.remember(name, value, self._rests_on(build_id), **notes)

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer."""
        if self._store is None:
            return None
        entry = self._store.recall(name, self._rests_on(build_id))
        return None if entry is None else entry.value

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


class _InPlace:
    """Times callables that do the same work where they stand."""

    def __init__(self, arms: Mapping[str, Callable[[], None]], timer: KernelTimer) -> None:
        self._arms = arms
        self._timer = timer

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a call, from one bracket."""
        return self._timer.time_ns(self._arms[candidate.name])
