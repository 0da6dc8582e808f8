from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpu.model import ChoiceResult, ProbePlan, Problem
from xpu_probe_tile_prewarm.plugin import xpu_probes
from xpu_probe_tile_prewarm.probe import TilePrewarm

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
            "tile_prewarm", families=tuple(problems) if families is None else families
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


def test_every_problem_of_every_planned_family_in_order() -> None:
    context = RecordingContext({"first": [(512, 4096), (64, 96)], "second": [(1, 7)]})
    results = list(TilePrewarm().run(context))
    assert context.tried == [("first", "512x4096"), ("first", "64x96"), ("second", "1x7")]
    assert [(result.family, result.problem) for result in results] == context.tried


def test_a_family_outside_the_plan_is_left_alone() -> None:
    context = RecordingContext({"first": [(2, 3)], "second": [(4, 5)]}, families=("second",))
    assert [result.problem for result in TilePrewarm().run(context)] == ["4x5"]


def test_results_come_one_by_one() -> None:
    context = RecordingContext({"first": [(1, 4), (1, 6)]})
    results: Any = iter(TilePrewarm().run(context))
    next(results)
    assert context.tried == [("first", "1x4")]


def test_the_plugin_brings_it_under_its_name() -> None:
    (probe,) = xpu_probes()
    assert probe.name == "tile_prewarm"
    assert probe.summary
