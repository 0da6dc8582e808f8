from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpu.model import ChoiceResult, ProbePlan, Problem
from xpu_probe_matvec_variant.plugin import xpu_probes
from xpu_probe_matvec_variant.probe import MatvecVariant

Sizes = tuple[int, int]


class RecordingContext:
    """The two methods of a probe context that the probe may call, and what was tried."""

    def __init__(
        self,
        problems: dict[str, list[Sizes]],
        families: tuple[str, ...] | None = None,
        names: tuple[str, str] = ("m", "n"),
    ) -> None:
        self.plan = ProbePlan(
            "matvec_variant", families=tuple(problems) if families is None else families
        )
        self.tried: list[tuple[str, str]] = []
        self._problems = problems
        self._names = names

    def problems(self, family: str) -> Sequence[Problem]:
        return [
            Problem(**dict(zip(self._names, sizes, strict=True)))
            for sizes in self._problems[family]
        ]

    def trial(self, family: str, problem: Problem) -> ChoiceResult:
        self.tried.append((family, problem.key))
        return ChoiceResult(family, problem.key, member="any", source="timed")


def test_only_the_problems_of_one_row_are_tried() -> None:
    context = RecordingContext({"first": [(1, 64), (8, 64), (0, 64), (1, 96)], "second": [(64, 7)]})
    results = list(MatvecVariant().run(context))
    assert context.tried == [("first", "1x64"), ("first", "1x96")]
    assert [(result.family, result.problem) for result in results] == context.tried


def test_a_family_without_rows_of_activations_is_tried_on_everything() -> None:
    context = RecordingContext({"other": [(5, 64)]}, names=("n", "k"))
    assert [result.problem for result in MatvecVariant().run(context)] == ["5x64"]


def test_results_come_one_by_one() -> None:
    context = RecordingContext({"first": [(1, 4), (1, 6)]})
    results: Any = iter(MatvecVariant().run(context))
    next(results)
    assert context.tried == [("first", "1x4")]


def test_the_plugin_brings_it_under_its_name() -> None:
    (probe,) = xpu_probes()
    assert probe.name == "matvec_variant"
    assert probe.summary
