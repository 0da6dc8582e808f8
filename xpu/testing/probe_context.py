"""A probe's context that measures nothing and writes everything down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import attrs

from xpu.errors import XpuConfigError
from xpu.model import ChoiceResult, MemberResult, ProbePlan, Problem, nearest

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


@attrs.frozen
class Kept:
    """An answer that a probe remembered."""

    value: str
    build_id: str
    notes: Mapping[str, object] = attrs.field(factory=dict)


class RecordingContext:
    """The context of a probe under test; see `xpu.spec.ProbeContext`.

    Parameters
    ----------
    problems
        Sizes to look at, by family: the plan names these families.
    name
        Name of the probe.
    refused
        Keys of problems that nothing can serve.
    memory
        Answers from earlier runs: two contexts may share one.
    in_memory
        The same of answers that are kept in memory.

    Attributes
    ----------
    tried, timed, bound
        Pairs of family and problem key, in order.
    compared
        Names and arms of comparisons in place, in order.
    recalled
        Names and build ids that were asked for.
    asked
        Every family that was named.
    holds
        How many holds are open.
    """

    def __init__(
        self,
        problems: Mapping[str, Sequence[Mapping[str, int]]],
        *,
        name: str = "probe",
        refused: Sequence[str] = (),
        memory: dict[str, Kept] | None = None,
        in_memory: dict[str, str] | None = None,
    ) -> None:
        self._problems = {
            family: [Problem(**sizes) for sizes in each] for family, each in problems.items()
        }
        keys = dict.fromkeys(it.key for each in self._problems.values() for it in each)
        self.plan = ProbePlan(name, families=tuple(problems), problems=tuple(keys))
        self.memory: dict[str, Kept] = {} if memory is None else memory
        self.in_memory: dict[str, str] = {} if in_memory is None else in_memory
        self.tried: list[tuple[str, str]] = []
        self.timed: list[tuple[str, str]] = []
        self.bound: list[tuple[str, str]] = []
        self.compared: list[tuple[str, tuple[str, ...]]] = []
        self.recalled: list[tuple[str, str]] = []
        self.asked: set[str] = set()
        self.holds = 0
        self._refused = frozenset(refused)

    @property
    def measurements(self) -> int:
        """How many trials, measurements and comparisons were asked for."""
        return len(self.tried) + len(self.timed) + len(self.compared)

    def problems(self, family: str) -> Sequence[Problem]:
        """Return the sizes given for a family."""
        self._ask(family)
        return tuple(self._problems[family])

    def data(self, family: str, problem: Problem) -> Arrays | None:
        """Return None: random data serves."""
        self._ask(family)
        return None

    def trial(self, family: str, problem: Problem) -> ChoiceResult:
        """Write the trial down; its answer is a member called ``first``, or a refusal."""
        self._ask(family)
        self.tried.append((family, problem.key))
        if problem.key in self._refused:
            return ChoiceResult(family, problem.key, "", "refused", note="nothing can serve it")
        return ChoiceResult(family, problem.key, "first", "timed", timed=True)

    def members(self, family: str) -> Mapping[str, str | None]:
        """Return two members, the first of which multiplies matrices."""
        self._ask(family)
        return {"first": "half_matrix", "second": None}

    def measured(self, family: str, problem: Problem) -> Sequence[MemberResult]:
        """Write the measurement down; the first member took half as long as the second."""
        self._ask(family)
        self.timed.append((family, problem.key))
        if problem.key in self._refused:
            return ()
        return (
            MemberResult("first", median_ns=1000.0, rounds=5),
            MemberResult("second", median_ns=2000.0, rounds=5),
        )

    def code(self, family: str, problem: Problem) -> str:
        """Return a text of the family and the problem."""
        self._ask(family)
        return f"code of {family} {problem.key}"

    def bind(self, family: str, problem: Problem) -> Any:
        """Write the bind down, and return what takes any call."""
        self._ask(family)
        self.bound.append((family, problem.key))
        return _Bound()

    def compare_in_place(self, name: str, arms: Mapping[str, Any], build_id: str) -> ChoiceResult:
        """Call each arm once, and remember the first."""
        self.compared.append((name, tuple(arms)))
        for arm in arms.values():
            arm()
        member = next(iter(arms))
        self.remember(name, member, build_id)
        return ChoiceResult(name, str(len(arms)), member, "timed", timed=True, stored=True)

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> None:
        """Keep an answer."""
        self.memory[name] = Kept(value, build_id, notes)

    def recall(self, name: str, build_id: str) -> str | None:
        """Return what was kept for this build."""
        self.recalled.append((name, build_id))
        kept = self.memory.get(name)
        return kept.value if kept is not None and kept.build_id == build_id else None

    def keep(self, name: str, value: str) -> None:
        """Keep an answer, as in memory."""
        self.in_memory[name] = value

    def kept(self, name: str) -> str | None:
        """Return what was kept as in memory."""
        return self.in_memory.get(name)

    def hold(self) -> AbstractContextManager[None]:
        """Count an open hold."""
        return _Hold(self)

    def _ask(self, family: str) -> None:
        self.asked.add(family)
        if family not in self._problems:
            raise XpuConfigError(
                f"no family is called {family!r}; {nearest(family, self._problems)}"
            )


class _Bound:
    """A bound kernel that does nothing."""

    member = "first"

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None) -> Any:
        return out

    def explain(self) -> str:
        return "a bound kernel of a test"


class _Hold(AbstractContextManager[None]):
    """Counts; one that is never left stays counted."""

    def __init__(self, context: RecordingContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.holds += 1

    def __exit__(self, *_error: object) -> None:
        self._context.holds -= 1
