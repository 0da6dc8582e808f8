"""A bound kernel: one member on one problem, called with arrays, and why it serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from xpu.model import ChoiceResult, MemberResult, Problem, Verdict
from xpu.orchestrator.calls import Calls
from xpu.orchestrator.direct import Direct


class BoundKernel(Direct):
    """One member of a family on one problem, ready to be called from any thread."""

    def __init__(
        self,
        *,
        family: str,
        problem: Problem,
        calls: Calls,
        result: ChoiceResult,
        is_final: bool,
        verdict: Verdict,
        pruned: Sequence[Verdict],
        aside: Sequence[MemberResult] = (),
    ) -> None:
        self.family = family
        self.problem = problem
        self.result = result
        self.is_final = is_final
        self.verdict = verdict
        self.pruned = tuple(pruned)
        self.aside = tuple(aside)
        self.calls = calls

    def __new__(cls, *, calls: Calls, **_what: object) -> BoundKernel:
        """Make an object whose call is that of `calls`."""
        return super().__new__(cls, calls.direct())

    @property
    def member(self) -> str:
        """Name of the member that serves."""
        return self.verdict.candidate.name

    if TYPE_CHECKING:

        def __call__(self, *inputs: Any, out: Any, stream: Any = None) -> Any:
            """Launch on arrays; see `Calls.call`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.family} {self.problem.key}: {self.member}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the kernel bound to {self.family} {self.problem.key} cannot be pickled: it is "
            "loaded in this process; make an Orchestrator in the other one and bind there"
        )

    def explain(self) -> str:
        """Say which member serves, why, and what was pruned or not considered."""
        lines = [f"{self.family} {self.problem.key}: {self.member} ({self.result.source})"]
        if self.result.serving:
            lines.append(f"  its member {self.result.serving} serves")
        if self.result.margin_permille is not None:
            tie = ", a tie" if self.result.tie else ""
            lines.append(f"  margin {self.result.margin_permille} permille{tie}")
        if self.result.note:
            lines.append(f"  {self.result.note}")
        lines.extend(f"  {verdict}" for verdict in self.pruned)
        lines.extend(f"  {one.name}: {one.status}: {one.brief}" for one in self.aside if one.note)
        return "\n".join(lines)
