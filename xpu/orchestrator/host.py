"""What the runner of probes needs of an orchestrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from xpu.filter import ShapeFilter
from xpu.model import ChoiceResult, Problem, ShapeCandidate

if TYPE_CHECKING:
    from xpu.orchestrator.orchestrator import Orchestrator
    from xpu.spec.design import Arrays


class Host:
    """Carries a probe's requests to an orchestrator; see `xpu.probes.ProbeHost`."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator

    def choose(
        self, family: str, problem: Problem, *, memory: str | None, data: Arrays | None
    ) -> ChoiceResult:
        """Recall or time the answer for a problem."""
        return self._orchestrator.choose(family, problem, memory=memory, data=data)

    def bind_problem(self, family: str, problem: Problem, *, memory: str | None) -> Any:
        """Return the bound kernel that serves a problem."""
        return self._orchestrator.bind(family, memory=memory, **problem.sizes)

    def compare(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables in place and remember the fastest."""
        orchestrator = self._orchestrator
        shapes = ShapeFilter(name, orchestrator.facts, Problem(arms=len(arms)), rules=())
        for arm in arms:
            shapes.consider(ShapeCandidate(arm, code_hash=build_id))
        return orchestrator.shape_choice.choose(
            shapes, _InPlace(arms, orchestrator.time_ns), identity=orchestrator.identity()
        )

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer; with no store it lasts as long as the process does not ask again."""
        if self._orchestrator.store is not None:
            self._orchestrator.store.remember(name, value, build_id, **notes)

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer."""
        if self._orchestrator.store is None:
            return None
        entry = self._orchestrator.store.recall(name, build_id)
        return None if entry is None else entry.value

    def hold(self) -> AbstractContextManager[None]:
        """Serve defaults untimed."""
        return self._orchestrator.hold()


class _InPlace:
    """Times callables that do the same work where they stand."""

    def __init__(
        self, arms: Mapping[str, Callable[[], None]], time_ns: Callable[[Callable[[], None]], float]
    ) -> None:
        self._arms = arms
        self._time_ns = time_ns

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a call, from one bracket."""
        return self._time_ns(self._arms[candidate.name])
