"""How one (family, problem) comes to its member under a tuning policy.

Here the policy meets the choice: what may be built, what may be timed, and what an
orchestrator keeps in memory. It binds nothing.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from xpu.choice import ShapeChoice, foreseen
from xpu.choice.foreign_load import resting_on
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, Family, Problem
from xpu.orchestrator.assembly import Assembled, Assembly
from xpu.orchestrator.events import Event, Listener, tell
from xpu.orchestrator.members import Members, fitted
from xpu.orchestrator.policy import Tuning, forced_member, warn_of_strangers
from xpu.orchestrator.routes import Routes, told
from xpu.orchestrator.served import Served
from xpu.orchestrator.trials import TOO_LARGE, Trials
from xpu.orchestrator.underway import Underway
from xpu.store import Autotune

if TYPE_CHECKING:
    from xpu.spec.design import Arrays

_LOGGER: Final = logging.getLogger("xpu")
_Key = tuple[str, str, str]


class Service:
    """Chooses members on one device, under one tuning policy. Safe from several threads.

    `underway` knows which problems are being timed.
    """

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
        self._members, self._routes = Members(assembly), Routes(assembly, self)
        self._tuning = tuning
        self._listener = listener
        self.underway = Underway()
        self._overrides: dict[str, str] = {}
        self._kept: dict[_Key, ChoiceResult] = {}
        self._warned: set[_Key] = set()
        settings = assembly.settings
        warn_of_strangers([*settings.families, *settings.dormant])

    def override(self, family: str, member: str | None) -> None:
        """Force a member of a family until it is cleared with None."""
        if member is None:
            self._overrides.pop(family, None)
        else:
            self._overrides[family] = member

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
            return self.default(family, problem, memory)
        forced = self._forced_name(family)
        if forced is not None:
            return self._forced(family, problem, forced, memory)
        bucketed = self._assembly.bucketed(family, problem)
        if bucketed is None:
            return self._out_of_bucket(family, problem, memory)
        if self._tuning == "off" and not must_time:
            return self.default(family, bucketed, memory)
        key = (family.name, bucketed.key, memory)
        kept = self._served_before(family, bucketed, key)
        if kept is not None:
            return kept
        if self._choice.is_held:
            return self._recalled(family, bucketed, key, "tuning is held", is_final=False)
        if self._tuning == "stored" and not must_time:
            return self._recalled(family, bucketed, key, "no answer is stored", is_final=True)
        with self.underway.claim(key) as is_ours:
            if not is_ours:
                why = "another thread is timing this"
                return self._stand_in(family, bucketed, memory, why, is_timed_elsewhere=True)
            return self._timed(family, bucketed, key, must_time=must_time, data=data)

    def foreseen(
        self, family: Family, problem: Problem, memory: str, store: Autotune | None
    ) -> ChoiceResult | None:
        """Return what serves a problem untimed, building and dropping nothing.

        None where a trial is to be held, or where members have to be built before anyone
        can tell.
        """
        forced = self._forced_name(family)
        if forced is not None:
            return ChoiceResult(family.name, problem.key, forced, "override", memory=memory)
        known = partial(self._routes.foreseen, memory=memory, store=store)
        assembled = self._of(family).recalled(family, problem, known)
        if assembled is None:
            return None
        identity = self._trials.identity(assembled)
        result = foreseen(assembled.filter, store, identity=identity, memory=memory)
        return None if result is None else told(assembled, result)

    def untimed(self, family: Family, problem: Problem, memory: str) -> Served:
        """Return what serves a problem at once: forced, remembered, else the default."""
        is_known = self._tuning != "off" or self.is_forced(family)
        known = self._known(family, problem, memory) if is_known else None
        return known or self.default(family, problem, memory)

    def considered(self, family: Family, problem: Problem, memory: str) -> Assembled:
        """Build and consider a family's members; routes are considered by what serves untimed."""
        return self._of(family).all(family, problem, memory)

    def to_time(self, family: Family, problem: Problem, memory: str) -> Assembled:
        """Return what a trial would compare; routes have chosen, each in its own family."""
        members = self._of(family)
        return members.to_time(family, problem, memory, must_time=True, data=None)[0]

    def fitted(self, family: Family, problem: Problem, served: Served, memory: str) -> Served:
        """Return an answer of a bucket for the real sizes, else the default; see `fitted`."""
        found = fitted(self._of(family), family, problem, served)
        return found or self.default(family, problem, memory, is_final=served.is_final)

    def default(
        self, family: Family, problem: Problem, memory: str, *, is_final: bool = True
    ) -> Served:
        """Serve the default, or the first member that can, building no more than needed.

        Raises
        ------
        XpuLaunchException
            No member can serve; the message names each.
        """
        for name, assembled in self._of(family).in_turn(family, problem, memory):
            if assembled.serves(name):
                result = ChoiceResult(family.name, problem.key, name, "default")
                return Served(assembled, told(assembled, result), is_final)
        raise XpuLaunchException(self.considered(family, problem, memory).filter.refusal())

    def kept(self, family: Family, problem: Problem, memory: str) -> ChoiceResult | None:
        """Return the answer for a bucket that is kept in memory."""
        return self._kept.get((family.name, problem.key, memory))

    def is_forced(self, family: Family) -> bool:
        """Whether an override names a family's member."""
        return self._forced_name(family) is not None

    def _of(self, family: Family) -> Members | Routes:
        return self._routes if family.routes else self._members

    def _forced_name(self, family: Family) -> str | None:
        return forced_member(family.name) or self._overrides.get(family.name)

    def _served_before(self, family: Family, problem: Problem, key: _Key) -> Served | None:
        """Return what this process keeps in memory."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        assembled = self._of(family).one(family, problem, kept.member, kept.serving)
        return Served(assembled, attrs.evolve(kept, timed=False), is_final=True)

    def _known(self, family: Family, problem: Problem, memory: str) -> Served | None:
        """Return what serves a problem untimed and will go on to; None: no answer is known."""
        if (forced := self._forced_name(family)) is not None:
            return self._forced(family, problem, forced, memory)
        if (bucketed := self._assembly.bucketed(family, problem)) is None:
            return self.default(family, problem, memory)
        served = self._remembered(family, bucketed, memory)
        return served and self.fitted(family, problem, served, memory)

    def _out_of_bucket(self, family: Family, problem: Problem, memory: str) -> Served:
        key = (family.name, problem.key, memory)
        if key not in self._warned:
            self._warned.add(key)
            _LOGGER.warning("%s %s is outside the family's buckets; its default serves", *key[:2])
        why = "outside the family's buckets"
        return self._stand_in(family, problem, memory, why, is_final=True)

    def _stand_in(
        self,
        family: Family,
        problem: Problem,
        memory: str,
        why: str,
        *,
        is_final: bool = False,
        is_timed_elsewhere: bool = False,
    ) -> Served:
        """Serve the default for want of an answer, and say so."""
        served = self.default(family, problem, memory, is_final=is_final)
        self._tell_default(served.result, why)
        result = attrs.evolve(served.result, is_stand_in=is_timed_elsewhere)
        return attrs.evolve(served, result=result)

    def _forced(self, family: Family, problem: Problem, member: str, memory: str) -> Served:
        assembled = self._of(family).forced(family, problem, member, memory)
        # A choice of its own: what forces a member may be gone at the next bind.
        once = ShapeChoice()
        once.override(family.name, member)
        result = once.choose(assembled.filter, None, memory=memory)
        return Served(assembled, told(assembled, result), is_final=True)

    def _recalled(
        self, family: Family, problem: Problem, key: _Key, why_not: str, *, is_final: bool
    ) -> Served:
        """Recall an answer where all that it rests on is built; else serve the default."""
        try:
            served = self._remembered(family, problem, key[2])
        except XpuLaunchException:  # a member past the cap may still serve
            served = None
        return served or self._stand_in(family, problem, key[2], why_not, is_final=is_final)

    def _remembered(self, family: Family, problem: Problem, memory: str) -> Served | None:
        """Return what is remembered of a bucket, in this process or stored; nothing is compiled.

        Raises
        ------
        XpuLaunchException
            All members are built, and none survives.
        """
        key = (family.name, problem.key, memory)
        kept = self._served_before(family, problem, key)
        if kept is not None:
            return kept
        known = partial(self._known, memory=memory)
        assembled = self._of(family).recalled(family, problem, known)
        if assembled is None:
            return None
        result = self._choose(assembled, memory, may_time=False)
        if result.source not in ("stored", "only"):
            return None
        self._kept[key] = result
        return Served(assembled, result, is_final=True)

    def _timed(
        self, family: Family, problem: Problem, key: _Key, *, must_time: bool, data: Arrays | None
    ) -> Served:
        assembled, choices = self._of(family).to_time(
            family, problem, key[2], must_time=must_time, data=data
        )
        for each in choices:
            if each.has_no_answer:
                why, elsewhere = f"{each.result.family} has no answer", each.result.is_stand_in
                return self._stand_in(family, problem, key[2], why, is_timed_elsewhere=elsewhere)
        result = self._choose(assembled, key[2], may_time=True, data=data)
        result = resting_on(result, (each.result for each in choices))
        if result.source == "default":
            result = attrs.evolve(result, note=result.note or TOO_LARGE)
            self._tell_default(result, result.note)
        is_final = result.source != "default" and not result.is_contended
        is_final = is_final and all(each.is_final for each in choices)
        if is_final:
            self._kept[key] = result
        return Served(assembled, result, is_final)

    def _choose(
        self, assembled: Assembled, memory: str, *, may_time: bool, data: Arrays | None = None
    ) -> ChoiceResult:
        result = self._choice.choose(
            assembled.filter,
            self._trials.trial(assembled, memory, data) if may_time else None,
            identity=self._trials.identity(assembled),
            memory=memory,
            may_time=may_time,
            afresh=assembled.has_lapsed,
        )
        return told(assembled, result)

    def _tell_default(self, result: ChoiceResult, why: str) -> None:
        event = Event("default", result.family, result.problem, result.member, why)
        tell(self._listener, event)
