"""What a probe plugin supplies, and the context through which it sees the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from xpu.model import ChoiceResult, MemberResult, ProbePlan, Problem

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

    def members(self, family: str) -> Mapping[str, str | None]:
        """Return a family's members on this backend, each with its `Design.arithmetic`.

        Nothing is built. It is empty where the family has no source for the backend.
        """

    def measured(self, family: str, problem: Problem) -> Sequence[MemberResult]:
        """Check and time every member that can serve a problem, whatever is stored.

        Nothing is remembered. It is empty where no member can serve.
        """

    def code(self, family: str, problem: Problem) -> str:
        """Return a text that changes when the code of a member that can serve does."""

    def bind(self, family: str, problem: Problem) -> Any:
        """Return the bound kernel that serves a problem."""

    def compare_in_place(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Time named callables, each doing the same work, and remember the fastest."""

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer of the probe's own."""

    def recall(self, name: str, build_id: str) -> str | None:
        """Return a kept answer, None when there is none for this build."""

    def keep(self, name: str, value: str) -> None:
        """Keep an answer of the probe's own in memory, for this device in this process."""

    def kept(self, name: str) -> str | None:
        """Return what is kept in memory, None when nothing is."""

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
