"""Runs probes one after another and yields their results as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from xpu.errors import XpuBuildError, XpuConfigError, XpuError, XpuLaunchException
from xpu.model import ChoiceResult, ProbePlan, Problem, nearest
from xpu.probes.model import ModelProblems
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Probe

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


class ProbeHost(Protocol):
    """What the runner needs of whoever measures: an orchestrator."""

    def choose(
        self, family: str, problem: Problem, *, memory: str | None, data: Arrays | None
    ) -> ChoiceResult:
        """Recall or time the answer for a problem."""

    def bind_problem(self, family: str, problem: Problem, *, memory: str | None) -> Any:
        """Return the bound kernel that serves a problem."""

    def compare(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables in place and remember the fastest."""

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer."""

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer."""

    def hold(self) -> AbstractContextManager[None]:
        """Serve defaults untimed."""


@attrs.frozen
class ProbeOutcome:
    """One result of one probe, or why there is none: exactly one of the two is there."""

    probe: str
    result: ChoiceResult | None = None
    error: str = ""


class _Context:
    """What one probe sees while it runs; see `xpu.spec.ProbeContext`."""

    def __init__(
        self,
        plan: ProbePlan,
        settings: Settings,
        registry: Registry,
        host: ProbeHost,
        model: ModelProblems | None,
    ) -> None:
        self.plan = plan
        self._settings = settings
        self._registry = registry
        self._host = host
        self._model = model

    def problems(self, family: str) -> Sequence[Problem]:
        declared = self._settings.family(family)
        if self._model is not None:
            return self._model.problems(declared)
        return [Problem.parse(declared.problem, key) for key in self.plan.problems]

    def data(self, family: str, problem: Problem) -> Arrays | None:
        if self._model is None:
            return None
        declared = self._settings.family(family)
        return self._model.data(declared, self._registry.design(declared.design), problem)

    def trial(self, family: str, problem: Problem) -> ChoiceResult:
        data = self.data(family, problem)
        memory = self.plan.memory
        try:
            return self._host.choose(family, problem, memory=memory, data=data)
        except (XpuLaunchException, XpuBuildError) as cause:
            # One problem that cannot be served must not cost the others their answers.
            return ChoiceResult(family, problem.key, "", "refused", note=str(cause), memory=memory)

    def bind(self, family: str, problem: Problem) -> Any:
        return self._host.bind_problem(family, problem, memory=self.plan.memory)

    def compare_in_place(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        return self._host.compare(name, arms, build_id)

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        self._host.remember(name, value, build_id, **notes)

    def recall(self, name: str, build_id: str) -> str | None:
        return self._host.recall(name, build_id)

    def hold(self) -> AbstractContextManager[None]:
        return self._host.hold()


def run_probes(
    host: ProbeHost,
    settings: Settings,
    registry: Registry,
    *,
    names: Sequence[str] = (),
    memory: str | None = None,
    model: ModelProblems | None = None,
) -> Iterator[ProbeOutcome]:
    """Run probes and yield each result as it comes.

    Parameters
    ----------
    names
        Probes to run; when empty, all that are planned and installed.
    memory
        Memory mode in place of each plan's own.
    model
        Where problems and data come from instead of the plans.

    Raises
    ------
    XpuConfigError
        A name is no planned probe.
    """
    for name in names or [name for name in settings.probes if name in registry.probes]:
        plan = _plan(settings, name)
        if memory is not None:
            plan = attrs.evolve(plan, memory=memory)
        probe = registry.probe(name)
        yield from _outcomes(probe, _Context(plan, settings, registry, host, model))


def _plan(settings: Settings, name: str) -> ProbePlan:
    if name not in settings.probes:
        raise XpuConfigError(f"no probe is called {name!r}; {nearest(name, settings.probes)}")
    return settings.probes[name]


def _outcomes(probe: Probe, context: _Context) -> Iterator[ProbeOutcome]:
    results = iter(probe.run(context))
    while True:
        try:
            yield ProbeOutcome(probe.name, next(results))
        except StopIteration:
            return
        except XpuError as cause:
            # A generator that raised is spent; what it gave before is kept.
            yield ProbeOutcome(probe.name, error=str(cause))
            return
