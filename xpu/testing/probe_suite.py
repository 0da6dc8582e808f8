"""The conformance suite of a probe, run against a context that writes everything down."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from xpu.model import ChoiceResult
from xpu.spec import Probe
from xpu.testing.probe_context import RecordingContext
from xpu.testing.surroundings import Suite, skip_for


class ProbeSuite(Suite):
    """Everything that the core expects of a probe.

    Used in one line: ``class TestMine(ProbeSuite): probe = MyProbe``.

    Attributes
    ----------
    probe
        The probe's class.
    problems
        Sizes that the probe looks at: those of each planned family.
    environment
        Variables to be set while its tests run.
    """

    probe: ClassVar[type[Probe]]
    problems: ClassVar[Sequence[Mapping[str, int]]] = (
        {"m": 1, "n": 64, "k": 256},
        {"m": 1, "n": 96, "k": 512},
        {"m": 8, "n": 64, "k": 256},
        {"m": 1, "n": 33, "k": 256},
    )

    def _made(self) -> Probe:
        try:
            return self.probe()
        except Exception as error:
            skip_for(error, "the probe cannot be made", "test_it_says_what_it_is")

    @pytest.fixture
    def make_context(self) -> Callable[..., RecordingContext]:
        """Make a context that plans two families, whose names nobody can know beforehand."""
        families = [f"family_{secrets.token_hex(4)}" for _ in range(2)]
        name = self._made().name

        def make(**more: Any) -> RecordingContext:
            return RecordingContext(dict.fromkeys(families, self.problems), name=name, **more)

        return make

    def test_it_says_what_it_is(self) -> None:
        probe = self.probe()
        assert probe.name.isidentifier(), "name: letters, digits and underscores"
        assert probe.summary.strip(), "summary: one line for `xpu probe list`"
        assert "\n" not in probe.summary

    def test_it_gives_the_results_that_its_trials_gave(
        self, make_context: Callable[..., RecordingContext]
    ) -> None:
        context = make_context()
        results = list(self._made().run(context))
        assert results, "it measures nothing on the suite's problems; set `problems`"
        for result in results:
            assert isinstance(result, ChoiceResult), f"it gave {result!r}, no ChoiceResult"
        given = {(result.family, result.problem) for result in results}
        lost = set(context.tried) - given
        assert not lost, f"it tried {sorted(lost)} and does not say what came of it"

    def test_it_names_no_family_of_its_own(
        self, make_context: Callable[..., RecordingContext]
    ) -> None:
        context = make_context()
        list(self._made().run(context))
        assert context.asked <= set(context.plan.families)

    def test_results_come_one_by_one(self, make_context: Callable[..., RecordingContext]) -> None:
        context = make_context()
        total = len(list(self._made().run(context)))
        if total < 2:
            pytest.skip(f"progress: it has {total} result on the suite's problems")
        whole = context.measurements
        context = make_context()
        results = iter(self._made().run(context))
        next(results)
        assert context.measurements < whole, (
            "all was measured before the first result was given: yield each as it comes"
        )

    def test_an_empty_plan_is_nothing_to_do(self) -> None:
        context = RecordingContext({}, name=self._made().name)
        assert list(self._made().run(context)) == []
        assert (context.measurements, context.memory) == (0, {})

    def test_a_problem_that_nothing_can_serve_costs_no_other(
        self, make_context: Callable[..., RecordingContext]
    ) -> None:
        whole = make_context()
        expected = len(list(self._made().run(whole)))
        if not whole.tried:
            pytest.skip("trials: it holds none")
        context = make_context(refused=[whole.tried[0][1]])
        results = list(self._made().run(context))
        assert context.tried == whole.tried
        assert len(results) == expected

    def test_it_remembers_what_it_says(self, make_context: Callable[..., RecordingContext]) -> None:
        context = make_context()
        said = {result.member for result in self._made().run(context)}
        if not context.memory:
            pytest.skip("answers of its own: it remembers none")
        for name, kept in context.memory.items():
            assert kept.build_id, f"{name} rests on nothing: give a build id that changes with it"
            assert kept.value in said, f"it remembers {kept.value!r} for {name} and gave {said}"

    def test_what_it_remembers_is_not_measured_again(
        self, make_context: Callable[..., RecordingContext]
    ) -> None:
        first = make_context()
        said = [result.member for result in self._made().run(first)]
        if not first.memory or first.compared:
            pytest.skip("answers of its own: it remembers none by itself")
        second = make_context(memory=first.memory)
        again = [result.member for result in self._made().run(second)]
        assert again == said
        assert not second.timed, f"it measures {second.timed} again"
        missed = set(first.memory) - {name for name, _ in second.recalled}
        assert not missed, f"it remembers {sorted(missed)} and never asks for it"

    def test_what_it_keeps_in_memory_is_not_measured_again(
        self, make_context: Callable[..., RecordingContext]
    ) -> None:
        first = make_context()
        said = [result.member for result in self._made().run(first)]
        if not first.in_memory:
            pytest.skip("answers in memory: it keeps none")
        assert set(first.in_memory.values()) <= set(said)
        second = make_context(in_memory=first.in_memory)
        assert [result.member for result in self._made().run(second)] == said
        assert not second.timed, f"it measures {second.timed} again"

    def test_a_hold_is_given_back(self, make_context: Callable[..., RecordingContext]) -> None:
        context = make_context()
        list(self._made().run(context))
        assert context.holds == 0, "defaults would be served from now on: close the hold"
