"""How one (family, problem) comes to its member under a tuning policy.

Here the policy meets the choice: what may be built, what may be timed, and what an
orchestrator keeps in memory. It binds nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import attrs

from xpu.choice import ShapeChoice
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, Family, Problem
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.events import Event, Listener
from xpu.orchestrator.policy import Tuning, forced_member
from xpu.orchestrator.trials import Trials

if TYPE_CHECKING:
    from xpu.spec.design import Arrays

_LOGGER: Final = logging.getLogger("xpu")
_Key = tuple[str, str, str]


@attrs.frozen
class Served:
    """The answer for a problem, and the members as they were considered for it.

    `is_final` is False when it stands in for one still to come: the next one who asks
    must ask again.
    """

    assembled: Assembled
    result: ChoiceResult
    is_final: bool


class Service:
    """Chooses members on one device, under one tuning policy. Safe from several threads."""

    def __init__(
        self,
        assembly: Assembly,
        choice: ShapeChoice,
        trials: Trials,
        *,
        tuning: Tuning,
        listener: Listener | None,
    ) -> None:
        self._assembly = assembly
        self._choice = choice
        self._trials = trials
        self._tuning = tuning
        self._listener = listener
        self._overrides: dict[str, str] = {}
        self._kept: dict[_Key, ChoiceResult] = {}
        self._warned: set[_Key] = set()
        self._changed = threading.Condition()
        self._in_trial: set[_Key] = set()
        # One trial at a time: two would time each other's work.
        self._turn = threading.Lock()

    def override(self, family: str, member: str | None) -> None:
        """Force a member of a family until it is cleared with None."""
        if member is None:
            self._overrides.pop(family, None)
            self._choice.clear_override(family)
        else:
            self._overrides[family] = member

    def is_settled(self) -> bool:
        """Whether no trial is under way."""
        with self._changed:
            return not self._in_trial

    def wait_settled(self, timeout_s: float | None) -> bool:
        """Wait until no trial is under way; False when the time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_trial, timeout_s)

    def serve(
        self,
        family: Family,
        problem: Problem,
        *,
        memory: str,
        must_time: bool = False,
        data: Arrays | None = None,
    ) -> Served:
        """Return the member for a problem, timing candidates where the policy allows.

        The answer is that of the problem's bucket; whether it fits the real sizes is for
        the caller to see. `must_time` times whatever the policy says, as a probe does.
        """
        if 0 in problem.sizes.values():
            # Nothing is ever launched, so there is nothing to time.
            return self.default(family, problem)
        bucketed = self._assembly.bucketed(family, problem)
        if bucketed is None:
            return self._out_of_bucket(family, problem, memory)
        forced = forced_member(family) or self._overrides.get(family.name)
        if forced is not None:
            return self._forced(family, bucketed, forced)
        if self._tuning == "off" and not must_time:
            return self.default(family, bucketed)
        key = (family.name, bucketed.key, memory)
        kept = self._kept.get(key)
        if kept is not None:
            assembled = self._assembly.assemble(family, bucketed, build=[kept.member])
            return Served(assembled, attrs.evolve(kept, timed=False), is_final=True)
        if self._tuning == "stored" and not must_time:
            return self._recalled(family, bucketed, key)
        with self._claim(key) as is_ours:
            if not is_ours:
                served = self.default(family, bucketed, is_final=False)
                self._tell("default", served.result, "another thread is timing this")
                return served
            return self._timed(family, bucketed, key, data)

    def default(self, family: Family, problem: Problem, *, is_final: bool = True) -> Served:
        """Serve the default, or the first member that can, building no more than needed.

        Raises
        ------
        XpuLaunchException
            No member can serve; the message names each.
        """
        names = self._assembly.buildable(family, problem)
        default = family.default_for(self._assembly.dialect)
        for name in sorted(names, key=lambda name: name != default):
            assembled = self._assembly.assemble(family, problem, build=[name])
            if assembled.serves(name):
                result = ChoiceResult(family.name, problem.key, name, "default")
                return Served(assembled, result, is_final)
        raise XpuLaunchException(self._assembly.assemble(family, problem).filter.refusal())

    def _out_of_bucket(self, family: Family, problem: Problem, memory: str) -> Served:
        key = (family.name, problem.key, memory)
        if key not in self._warned:
            self._warned.add(key)
            _LOGGER.warning("%s %s is outside the family's buckets; its default serves", *key[:2])
        served = self.default(family, problem)
        self._tell("default", served.result, "outside the family's buckets")
        return served

    def _forced(self, family: Family, problem: Problem, member: str) -> Served:
        assembled = self._assembly.assemble(family, problem, build=[member])
        self._choice.override(family.name, member)
        result = self._choice.choose(assembled.filter, None)
        return Served(assembled, result, is_final=True)

    def _recalled(self, family: Family, problem: Problem, key: _Key) -> Served:
        """Recall an answer where all that it rests on is built; else the default, said."""
        names = self._assembly.buildable(family, problem)
        if self._assembly.is_built(family, names):
            assembled = self._assembly.assemble(family, problem)
            result = self._choose(assembled, key[2], may_time=False)
            if result.source in ("stored", "only"):
                self._kept[key] = result
                return Served(assembled, result, is_final=True)
        served = self.default(family, problem)
        self._tell("default", served.result, "no answer is stored")
        return served

    def _timed(self, family: Family, problem: Problem, key: _Key, data: Arrays | None) -> Served:
        assembled = self._assembly.assemble(family, problem)
        with self._turn:
            result = self._choose(assembled, key[2], may_time=True, data=data)
        if result.source == "default":
            self._tell("default", result, result.note or "tuning is held")
        is_final = result.source != "default" and not result.is_contended
        if is_final:
            self._kept[key] = result
        return Served(assembled, result, is_final)

    def _choose(
        self, assembled: Assembled, memory: str, *, may_time: bool, data: Arrays | None = None
    ) -> ChoiceResult:
        return self._choice.choose(
            assembled.filter,
            self._trials.trial(assembled, memory, data),
            identity=self._trials.identity(assembled),
            memory=memory,
            may_time=may_time,
        )

    @contextmanager
    def _claim(self, key: _Key) -> Iterator[bool]:
        """Yield whether this thread is the one to tune a key."""
        with self._changed:
            is_ours = key not in self._in_trial
            self._in_trial.add(key)
        try:
            yield is_ours
        finally:
            if is_ours:
                with self._changed:
                    self._in_trial.discard(key)
                    self._changed.notify_all()

    def _tell(self, kind: Literal["default", "dropped"], result: ChoiceResult, text: str) -> None:
        if self._listener is not None:
            event = Event(kind, result.family, result.problem, result.member, text)
            self._listener(event)
