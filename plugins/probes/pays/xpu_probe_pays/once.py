"""Questions that a part answers once: asked in each process anew, and kept in memory.

They name no family and measure nothing themselves: the plan says what, the context how.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final

from xpu.model import ChoiceResult
from xpu.spec import Probe, ProbeContext
from xpu_probe_pays.contest import Way, contest, fastest_ns

UNKNOWN: Final = "unknown"
_MATRIX: Final = ("half_matrix", "int8_matrix")
Group = Mapping[str, list[str]]
"""Members by family."""


class Once(Probe):
    """One question, answered ``yes`` or ``no`` from two groups of members, or ``unknown``."""

    question: str
    missing: str
    """What to say where one of the groups is empty."""

    @abstractmethod
    def groups(self, context: ProbeContext) -> tuple[Group, Group]:
        """Return the members without what is asked about, and those with it."""

    def run(self, context: ProbeContext) -> Iterator[ChoiceResult]:
        """Compare the groups, or say what is kept; an empty plan asks nothing."""
        families, memory = context.plan.families, context.plan.memory
        if not families:
            return
        known = context.kept(self.question)
        if known is not None:
            yield ChoiceResult(self.question, "all", known, "stored", memory=memory)
            return
        without, having = self.groups(context)
        if not (without and having):
            yield _unknown(self.question, self.missing, memory)
            return
        yield self._answer(context, without, having)

    def _answer(self, context: ProbeContext, without: Group, having: Group) -> ChoiceResult:
        totals, keys = [0.0, 0.0], []
        for problem in context.problems(context.plan.families[0]):
            results = {it: context.measured(it, problem) for it in {**without, **having}}
            pair = [
                min(
                    filter(None, (fastest_ns(results[it], group[it]) for it in group)), default=None
                )
                for group in (without, having)
            ]
            if None not in pair:
                keys.append(problem.key)
                totals = [total + (taken or 0.0) for total, taken in zip(totals, pair, strict=True)]
        memory = context.plan.memory
        if not keys:
            return _unknown(self.question, "no problem of the plan is served by both", memory)
        ways = Way("no", totals[0]), Way("yes", totals[1])
        result = contest(self.question, ", ".join(keys), memory, *ways)
        context.keep(self.question, result.member)
        return result


class MatrixCoresPay(Once):
    """Members whose arithmetic is a matrix operation against those without."""

    name = "matrix_cores_pay"
    summary = "whether matrix operations pay at all, once per process"
    question = "matrixCoresPay"
    missing = "the planned families have not both: members with matrix operations and without"

    def groups(self, context: ProbeContext) -> tuple[Group, Group]:
        """Sort the members of all families by their arithmetic."""
        found: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
        for family in context.plan.families:
            for member, arithmetic in context.members(family).items():
                found[arithmetic in _MATRIX].setdefault(family, []).append(member)
        return found


class TileBeatsDequant(Once):
    """The first family of the plan, tiles, against the second, which dequantises for a library."""

    name = "tile_beats_dequant"
    summary = "whether tiles beat dequantised weights and a library, once per process"
    question = "tileBeatsDequant"
    missing = "there is no library family to compare tiles with"

    def groups(self, context: ProbeContext) -> tuple[Group, Group]:
        """Return the members of the library's family, and those of the tiles'."""
        tile, *library = context.plan.families[:2]
        groups = [
            {family: list(members) for family in names if (members := context.members(family))}
            for names in (library, [tile])
        ]
        return groups[0], groups[1]


def _unknown(question: str, note: str, memory: str) -> ChoiceResult:
    return ChoiceResult(question, "all", UNKNOWN, "default", note=note, memory=memory)
