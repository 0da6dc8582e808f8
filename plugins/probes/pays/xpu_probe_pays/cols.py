"""Whether a launch for several rows beats as many launches for one, by family and width.

It names no family and measures nothing itself: the plan says what, the context how.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from xpu.model import ChoiceResult, Problem
from xpu.spec import Probe, ProbeContext
from xpu_probe_pays.contest import Way, contest, fastest_ns


class Cols(Probe):
    """A contest for each pair of families of the plan and each width, summed over the matrices."""

    name = "cols"
    summary = "whether one launch for several rows beats as many for one"

    def run(self, context: ProbeContext) -> Iterator[ChoiceResult]:
        """Compare each pair at each width of more than one row, and yield each answer as it comes.

        Families stand in pairs, the one for one row first. A pair of which one has no source for
        the backend is passed over.
        """
        families = context.plan.families
        for single, batched in zip(families[::2], families[1::2], strict=False):
            if not (context.members(single) and context.members(batched)):
                continue
            widths: dict[int, list[Problem]] = {}
            for problem in context.problems(batched):
                if problem.sizes.get("m", 1) > 1:
                    widths.setdefault(problem.m, []).append(problem)
            for rows, problems in widths.items():
                yield self._answer(context, (single, batched), rows, problems)

    def _answer(
        self, context: ProbeContext, pair: tuple[str, str], rows: int, problems: Sequence[Problem]
    ) -> ChoiceResult:
        single, batched = pair
        ones = [Problem(**{**problem.sizes, "m": 1}) for problem in problems]
        name = f"colsPays-{batched}-b{rows}"
        keys, memory = ", ".join(problem.key for problem in problems), context.plan.memory
        code = [context.code(batched, problem) for problem in problems]
        code += [context.code(single, problem) for problem in ones]
        build_id = " ".join([memory, keys, *code])
        known = context.recall(name, build_id)
        if known is not None:
            return ChoiceResult(name, keys, known, "stored", stored=True, memory=memory)
        together = _total_ns(context, batched, problems)
        apart = _total_ns(context, single, ones)
        if together is None or apart is None:
            note = f"no member of {single if apart is None else batched} can serve"
            return ChoiceResult(name, keys, "", "refused", note=note, memory=memory)
        way = Way("cols", together)
        result = contest(name, keys, memory, Way("single", rows * apart), way)
        context.remember(name, result.member, build_id, margin=result.margin_permille)
        return attrs.evolve(result, stored=context.recall(name, build_id) is not None)


def _total_ns(context: ProbeContext, family: str, problems: Sequence[Problem]) -> float | None:
    """Return what a family's fastest members take for all problems; None where one has none."""
    total = 0.0
    for problem in problems:
        taken = fastest_ns(context.measured(family, problem))
        if taken is None:
            return None
        total += taken
    return total
