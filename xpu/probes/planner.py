"""Which questions a tuning goes through: those that were asked for, else those of the probes.

A probe is asked what it would try, by running it on a context that writes trials down and
makes none. Nothing here measures.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import attrs

from xpu.buckets import family_bucket
from xpu.errors import XpuConfigError, XpuError
from xpu.model import ChoiceResult, Family, MemberResult, ProbePlan, Problem
from xpu.probes.model import ModelProblems
from xpu.probes.runner import plan_of, reason_of
from xpu.registry import Registry, arithmetic_of, routes_in, speaks, turned_away, why_not
from xpu.settings import Settings

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


@attrs.frozen
class Question:
    """Which member of a family serves a problem; `problem` is its own bucket."""

    family: str
    problem: Problem
    memory: str = "warm"


@attrs.frozen
class Questions:
    """What is to be answered, each once.

    `unplanned` are the probes that could not be asked, `unasked` the problems that were named
    and cannot be measured; both by name, with why.
    """

    asked: tuple[Question, ...]
    unplanned: Mapping[str, str] = attrs.field(factory=dict)
    unasked: Mapping[str, str] = attrs.field(factory=dict)


class Planner:
    """Turns what a person names, and what probes look at, into questions.

    Parameters
    ----------
    dialect
        That of the backend: a probe's question to a family without a source in it is none.
    memory
        Memory mode in place of each plan's own; a problem that is named is ``warm`` else.
    batches
        Values of m in place of the problems' own.
    """

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        dialect: str,
        *,
        memory: str | None = None,
        batches: Sequence[int] | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._dialect = dialect
        self._memory = memory
        self._batches = batches

    def named(self, texts: Sequence[str]) -> Questions:
        """Return the questions of texts such as ``q4k_tile:512x4096x4096``.

        Raises
        ------
        XpuConfigError
            A text is no such pair, or its family cannot serve the problem at any m.
        """
        unasked: dict[str, str] = {}
        found = [question for text in texts for question in self._of_text(text, unasked)]
        return Questions(self._each_once(found), unasked=unasked)

    def probed(self, model: ModelProblems | None) -> Questions:
        """Return what the configured probes would try, on a model's problems where one is given."""
        found: list[Question] = []
        unplanned: dict[str, str] = {}
        for name in self._settings.probes:
            if name not in self._registry.probes:
                continue
            plan = plan_of(self._settings, name, self._memory)
            notes = _Notes(plan, self, model)
            try:
                for _ in self._registry.probe(name).run(notes):
                    pass
            except (Exception, SystemExit) as cause:
                unplanned[name] = reason_of(cause)
            found += notes.tried
        return Questions(self._each_once(filter(self._is_served, found)), unplanned)

    def at_batches(self, problem: Problem) -> list[Problem]:
        """Return a problem at each batch size; alone where none are given or it has no m."""
        if self._batches is None or "m" not in problem.sizes:
            return [problem]
        return [Problem(**{**problem.sizes, "m": batch}) for batch in self._batches]

    def family(self, name: str) -> Family:
        """Return a family by name; see `Settings.family`."""
        return self._settings.family(name)

    def members(self, name: str) -> Mapping[str, str | None]:
        """Return a family's members; see `xpu.spec.ProbeContext`."""
        return arithmetic_of(self._registry, self.family(name), self._dialect)

    def _of_text(self, text: str, unasked: dict[str, str]) -> Iterator[Question]:
        name, colon, key = text.partition(":")
        if not colon:
            raise XpuConfigError(
                f"--problem {text!r}: allowed: FAMILY:SIZES, for instance q4k_tile:512x4096x4096"
            )
        family = self.family(name)
        parsed = Problem.parse(family.problem, key)
        problems = self.at_batches(parsed)
        refusals = [self._why_not(family, problem) for problem in problems]
        if all(refusals):
            raise XpuConfigError(f"--problem {text!r}: {refusals[0]}")
        for problem, refusal in zip(problems, refusals, strict=True):
            why = refusal or self._why_unmeasured(family, problem)
            if why:
                unasked[f"{name}:{problem.key}"] = why
            else:
                yield Question(name, problem, self._memory or "warm")

    def _why_not(self, family: Family, problem: Problem) -> str:
        if 0 in problem.sizes.values():
            return "with a size of 0 nothing is launched, so there is nothing to time"
        return why_not(self._registry, family, problem)

    def _why_unmeasured(self, family: Family, problem: Problem) -> str:
        if self._bucketed(family, problem) is not None:
            return ""
        rules = ", ".join(f"{size} by {policy!r}" for size, policy in family.buckets.items())
        return (
            f"it is outside the family's buckets ({rules}; see buckets.toml), "
            "so the default serves it and nothing is measured"
        )

    def _bucketed(self, family: Family, problem: Problem) -> Problem | None:
        refused = functools.partial(why_not, self._registry, family)
        return family_bucket(family, problem, self._settings.buckets, refused)

    def _is_served(self, question: Question) -> bool:
        family = self.family(question.family)
        is_spoken = speaks(self._registry, family, self._dialect)
        return is_spoken and not self._why_not(family, question.problem)

    def _each_once(self, questions: Iterable[Question]) -> tuple[Question, ...]:
        """Put each problem in its bucket, and leave out what is there already or has none."""
        return tuple(dict.fromkeys(it for each in questions for it in self._with_routes(each)))

    def _with_routes(self, question: Question) -> Iterator[Question]:
        """Yield a question at its bucket, after those that it rests on: of a family's routes."""
        family = self.family(question.family)
        bucketed = self._bucketed(family, question.problem)
        if bucketed is None:
            return
        for route in routes_in(self._registry, family, self._dialect):
            if not turned_away(self._registry, route, bucketed):
                of_route = attrs.evolve(question, family=route.family.name, problem=bucketed)
                yield from self._with_routes(of_route)
        yield attrs.evolve(question, problem=bucketed)


class _Notes:
    """The context of a probe that is only asked what it would try; see `xpu.spec.ProbeContext`."""

    def __init__(self, plan: ProbePlan, planner: Planner, model: ModelProblems | None) -> None:
        self.plan = plan
        self.tried: list[Question] = []
        self._planner = planner
        self._model = model

    def problems(self, family: str) -> Sequence[Problem]:
        declared = self._planner.family(family)
        if self._model is not None:
            return self._model.problems(declared)
        given = [Problem.parse(declared.problem, key) for key in self.plan.problems]
        found = [one for problem in given for one in self._planner.at_batches(problem)]
        return list(dict.fromkeys(found))

    def data(self, family: str, problem: Problem) -> Arrays | None:
        return None

    def trial(self, family: str, problem: Problem) -> ChoiceResult:
        self.tried.append(Question(family, problem, self.plan.memory))
        return ChoiceResult(family, problem.key, "", "refused", note="it is only planned")

    def members(self, family: str) -> Mapping[str, str | None]:
        return self._planner.members(family)

    def measured(self, family: str, problem: Problem) -> Sequence[MemberResult]:
        raise XpuError("it measures by itself, which a plan cannot foretell")

    def code(self, family: str, problem: Problem) -> str:
        return ""

    def bind(self, family: str, problem: Problem) -> Any:
        raise XpuError("it binds a kernel, which a plan cannot foretell")

    def compare_in_place(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        raise XpuError("it compares in place, which a plan cannot foretell")

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        return

    def recall(self, name: str, build_id: str) -> str | None:
        return None

    def keep(self, name: str, value: str) -> None:
        return

    def kept(self, name: str) -> str | None:
        return None

    def hold(self) -> AbstractContextManager[None]:
        return nullcontext()
