"""Runs probes one after another and yields their results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from xpu.choice.foreign_load import note_without_load
from xpu.errors import XpuConfigError, XpuError, XpuLaunchException
from xpu.model import ChoiceResult, MemberResult, ProbePlan, Problem, nearest
from xpu.probes.model import ModelProblems
from xpu.registry import Registry, arithmetic_of
from xpu.settings import Settings
from xpu.spec import Probe

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


class ProbeHost(Protocol):
    """What the runner needs of whoever measures: an orchestrator."""

    @property
    def dialect(self) -> str:
        """The dialect that the backend takes."""

    def choose(
        self, family: str, problem: Problem, *, memory: str | None, data: Arrays | None
    ) -> ChoiceResult:
        """Recall or time the answer for a problem."""

    def measure(self, family: str, problem: Problem, *, memory: str) -> Sequence[MemberResult]:
        """Check and time every member that can serve a problem; nothing is remembered."""

    def code_of(self, family: str, problem: Problem) -> str:
        """Return a text that changes when the code of a member that can serve does."""

    def bind_problem(self, family: str, problem: Problem, *, memory: str | None) -> Any:
        """Return the bound kernel that serves a problem."""

    def compare(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables in place and remember the fastest."""

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer."""

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer."""

    def keep(self, name: str, value: str) -> None:
        """Keep an answer in memory."""

    def kept(self, name: str) -> str | None:
        """Return an answer that is kept in memory."""

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
        return self._model.data(declared, self._registry.design_of(declared), problem)

    def trial(self, family: str, problem: Problem) -> ChoiceResult:
        return tried(
            self._host.choose,
            family,
            problem,
            memory=self.plan.memory,
            data=lambda: self.data(family, problem),
        )

    def members(self, family: str) -> Mapping[str, str | None]:
        return arithmetic_of(self._registry, self._settings.family(family), self._host.dialect)

    def measured(self, family: str, problem: Problem) -> Sequence[MemberResult]:
        return self._host.measure(family, problem, memory=self.plan.memory)

    def code(self, family: str, problem: Problem) -> str:
        return self._host.code_of(family, problem)

    def bind(self, family: str, problem: Problem) -> Any:
        return self._host.bind_problem(family, problem, memory=self.plan.memory)

    def compare_in_place(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        return self._host.compare(name, arms, build_id)

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        self._host.remember(name, value, build_id, **notes)

    def recall(self, name: str, build_id: str) -> str | None:
        return self._host.recall(name, build_id)

    def keep(self, name: str, value: str) -> None:
        self._host.keep(name, value)

    def kept(self, name: str) -> str | None:
        return self._host.kept(name)

    def hold(self) -> AbstractContextManager[None]:
        return self._host.hold()


def tried(
    choose: Callable[..., ChoiceResult],
    family: str,
    problem: Problem,
    *,
    memory: str,
    data: Callable[[], Arrays | None],
) -> ChoiceResult:
    """Return the answer for a problem; one that cannot be served is a result, no error.

    `choose` is a host's, `data` gives the arrays to time on, None for random ones.
    """
    try:
        given = data()
        first = choose(family, problem, memory=memory, data=given)
        if not first.is_contended:
            return first
        # Others' work often comes in bursts, and an answer that is not kept is
        # one that the next start has to time again: one more try.
        second = choose(family, problem, memory=memory, data=given)
        # An answer that was dropped is told of once, by whoever found it.
        told = note_without_load(first)
        if not told or told in second.note:
            return second
        return attrs.evolve(second, note="; ".join(filter(None, (told, second.note))))
    except Exception as cause:
        # One problem that cannot be served must not cost the others their answers, whether
        # nothing survives or a family's own code fails.
        why = reason_of(cause)
        members = cause.members if isinstance(cause, XpuLaunchException) else ()
        return ChoiceResult(
            family, problem.key, "", "refused", note=why, members=members, memory=memory
        )


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
    wanted = names or [name for name in settings.probes if name in registry.probes]
    # All names are looked up before the first probe runs: a wrong one costs no answers.
    plans = {name: plan_of(settings, name, memory) for name in wanted}
    for probe in [registry.probe(name) for name in plans]:
        context = _Context(plans[probe.name], settings, registry, host, model)
        yield from _outcomes(probe, context)


def plan_of(settings: Settings, name: str, memory: str | None) -> ProbePlan:
    """Return the plan of a probe, in another memory mode where one is given.

    Raises
    ------
    XpuConfigError
        The name is no planned probe.
    """
    if name not in settings.probes:
        raise XpuConfigError(f"no [probes.{name}] is configured; {nearest(name, settings.probes)}")
    plan = settings.probes[name]
    return plan if memory is None else attrs.evolve(plan, memory=memory)


def _outcomes(probe: Probe, context: _Context) -> Iterator[ProbeOutcome]:
    try:
        for result in probe.run(context):
            if not isinstance(result, ChoiceResult):
                raise TypeError(f"it gave {result!r}; allowed: a ChoiceResult")
            yield ProbeOutcome(probe.name, result)
    except (Exception, SystemExit) as cause:
        # What it gave before is kept, and the probes after it run.
        yield ProbeOutcome(probe.name, error=reason_of(cause))


def reason_of(cause: BaseException) -> str:
    """Return what an error says; one that is not ours says its kind, too."""
    return str(cause) if isinstance(cause, XpuError) else f"{type(cause).__name__}: {cause}"
