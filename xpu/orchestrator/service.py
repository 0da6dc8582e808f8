"""How one (family, problem) comes to its member under a tuning policy.

Here the policy meets the choice: what may be built, what may be timed, and what an
orchestrator keeps in memory. It binds nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from xpu.choice import ShapeChoice, foreseen
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, Family, Problem
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.events import Event, Listener, tell
from xpu.orchestrator.policy import Tuning, forced_member, warn_of_strangers
from xpu.orchestrator.trials import Trials
from xpu.store import Autotune

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
        settings = assembly.settings
        warn_of_strangers([*settings.families, *settings.dormant])

    def override(self, family: str, member: str | None) -> None:
        """Force a member of a family until it is cleared with None."""
        if member is None:
            self._overrides.pop(family, None)
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
        forced = forced_member(family) or self._overrides.get(family.name)
        if forced is not None:
            return self._forced(family, problem, forced, memory)
        bucketed = self._assembly.bucketed(family, problem)
        if bucketed is None:
            return self._out_of_bucket(family, problem, memory)
        if self._tuning == "off" and not must_time:
            return self.default(family, bucketed)
        key = (family.name, bucketed.key, memory)
        kept = self._kept.get(key)
        if kept is not None:
            assembled = self._assembly.assemble(family, bucketed, build=[kept.member])
            return Served(assembled, attrs.evolve(kept, timed=False), is_final=True)
        if self._choice.is_held:
            return self._recalled(family, bucketed, key, "tuning is held", is_final=False)
        if self._tuning == "stored" and not must_time:
            return self._recalled(family, bucketed, key, "no answer is stored", is_final=True)
        with self._claim(key) as is_ours:
            if not is_ours:
                served = self._stand_in(family, bucketed, "another thread is timing this")
                return attrs.evolve(served, result=attrs.evolve(served.result, is_stand_in=True))
            return self._timed(family, bucketed, key, data)

    def foreseen(
        self, family: Family, problem: Problem, memory: str, store: Autotune | None
    ) -> ChoiceResult | None:
        """Return what serves a problem untimed, building and dropping nothing.

        None where a trial is to be held, or where members have to be built before anyone
        can tell.
        """
        forced = forced_member(family) or self._overrides.get(family.name)
        if forced is not None:
            return ChoiceResult(family.name, problem.key, forced, "override", memory=memory)
        assembled = self._assembly.recalled(family, problem)
        if assembled is None:
            return None
        identity = self._trials.identity(assembled)
        return foreseen(assembled.filter, store, identity=identity, memory=memory)

    def default(self, family: Family, problem: Problem, *, is_final: bool = True) -> Served:
        """Serve the default, or the first member that can, building no more than needed.

        Raises
        ------
        XpuLaunchException
            No member can serve; the message names each.
        """
        # Not to the cap: it bounds what a trial builds, and the default may stand behind it.
        names = self._assembly.eligible(family, problem)
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
        return self._stand_in(family, problem, "outside the family's buckets", is_final=True)

    def _stand_in(
        self, family: Family, problem: Problem, why: str, *, is_final: bool = False
    ) -> Served:
        """Serve the default for want of an answer, and say so."""
        served = self.default(family, problem, is_final=is_final)
        self._tell_default(served.result, why)
        return served

    def _forced(self, family: Family, problem: Problem, member: str, memory: str) -> Served:
        assembled = self._assembly.assemble(family, problem, build=[member])
        if family.member(member) and not assembled.serves(member):
            # All are built, so that the refusal proposes none that cannot serve either.
            everyone = [each.name for each in family.members]
            assembled = self._assembly.assemble(family, problem, build=everyone)
        # A choice of its own: what forces a member may be gone at the next bind.
        once = ShapeChoice()
        once.override(family.name, member)
        return Served(assembled, once.choose(assembled.filter, None, memory=memory), is_final=True)

    def _recalled(
        self, family: Family, problem: Problem, key: _Key, why_not: str, *, is_final: bool
    ) -> Served:
        """Recall an answer where all that it rests on is built; else serve the default."""
        assembled = self._assembly.recalled(family, problem)
        if assembled is not None and assembled.filter.survivors:
            result = self._choose(assembled, key[2], may_time=False)
            if result.source in ("stored", "only"):
                self._kept[key] = result
                return Served(assembled, result, is_final=True)
        return self._stand_in(family, problem, why_not, is_final=is_final)

    def _timed(self, family: Family, problem: Problem, key: _Key, data: Arrays | None) -> Served:
        assembled = self._assembly.assemble(family, problem)
        result = self._choose(assembled, key[2], may_time=True, data=data)
        if result.source == "default":
            self._tell_default(result, result.note or "it is too large to be timed")
        is_final = result.source != "default" and not result.is_contended
        if is_final:
            self._kept[key] = result
        return Served(assembled, result, is_final)

    def _choose(
        self, assembled: Assembled, memory: str, *, may_time: bool, data: Arrays | None = None
    ) -> ChoiceResult:
        return self._choice.choose(
            assembled.filter,
            self._trials.trial(assembled, memory, data) if may_time else None,
            identity=self._trials.identity(assembled),
            memory=memory,
            may_time=may_time,
            afresh=assembled.has_lapsed,
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

    def _tell_default(self, result: ChoiceResult, why: str) -> None:
        event = Event("default", result.family, result.problem, result.member, why)
        tell(self._listener, event)
