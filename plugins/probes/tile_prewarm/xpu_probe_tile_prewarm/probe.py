"""Decides the tile shapes of the planned matrix products before they are wanted.

It names no family and measures nothing itself: the plan says what, the context how.
"""

from __future__ import annotations

from collections.abc import Iterator

from xpu.model import ChoiceResult
from xpu.spec import Probe, ProbeContext


class TilePrewarm(Probe):
    """A trial for each problem of each family of the plan."""

    name = "tile_prewarm"
    summary = "tile shapes of every planned matrix product"

    def run(self, context: ProbeContext) -> Iterator[ChoiceResult]:
        """Try every problem of every family of the plan, and yield each result as it comes."""
        for family in context.plan.families:
            for problem in context.problems(family):
                yield context.trial(family, problem)
