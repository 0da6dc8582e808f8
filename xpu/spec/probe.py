"""What a probe plugin supplies, and the context through which it sees the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from xpu.model import ChoiceResult, ProbePlan, Problem

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


class ProbeContext(Protocol):
    """What the core offers a probe while it runs.

    A family is named, never handed out, so that a probe works with any backend.
    """

    plan: ProbePlan

    def problems(self, family: str) -> Sequence[Problem]:
        """Return the problems to look at: a model's, else those of the configuration."""

    def data(self, family: str, problem: Problem) -> Arrays | None:
        """Return a model's own arrays for a problem; None when random data serves."""

    def trial(self, family: str, problem: Problem) -> ChoiceResult:
        """Filter, recall or time the family's candidates on a problem, and remember."""

    def bind(self, family: str, problem: Problem) -> Any:
        """Return the bound kernel that serves a problem."""

    def compare_in_place(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables, each doing the same work, and remember the fastest."""

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer of the probe's own."""

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer, None when there is none for this build."""

    def hold(self) -> AbstractContextManager[None]:
        """Serve defaults untimed while the context is open."""


class Probe(ABC):
    """Something that measures once at load and remembers its answer.

    Attributes
    ----------
    name
        What ``xpu probe run NAME`` and ``probes.toml`` say.
    summary
        One line for ``xpu probe list``.
    """

    name: str
    summary: str

    @abstractmethod
    def run(self, context: ProbeContext) -> Iterable[ChoiceResult]:
        """Measure, and yield each result as it comes so that progress is seen."""
