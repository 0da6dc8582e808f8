"""Decides the variant of the matrix-vector product that decoding spends its time in.

It names no family and measures nothing itself: the plan says what, the context how.
"""

from __future__ import annotations

from collections.abc import Iterator

from xpu.model import ChoiceResult
from xpu.spec import Probe, ProbeContext


class MatvecVariant(Probe):
    """A trial for each decoding problem of each family of the plan."""

    name = "matvec_variant"
    summary = "variants of the matrix-vector product of decoding"

    def run(self, context: ProbeContext) -> Iterator[ChoiceResult]:
        """Try the decoding problems of the plan's families, and yield each result as it comes.

        A model's problems come in several batches; only those of one row of activations
        decode. A family whose problem has no `m` decodes with all of them.
        """
        for family in context.plan.families:
            for problem in context.problems(family):
                if problem.sizes.get("m", 1) == 1:
                    yield context.trial(family, problem)
