"""`ShapeChoice`: which survivor serves, and how that came about.

The override first, then the store, then the trial; where nothing may be timed, the
default. It knows neither devices nor kernels: a probe checks and times candidates, a store
remembers. Orchestrators call it, and so may any program with a probe of its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from xpu.choice.case import Case, members_of
from xpu.choice.decision import Decision
from xpu.choice.foreign_load import ForeignLoad, LoadWatch
from xpu.choice.rests_on import grounds_of, store_name
from xpu.choice.trial import Trial, TrialProbe
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult

if TYPE_CHECKING:
    from xpu.filter import ShapeFilter
    from xpu.store import Autotune, Entry

BUDGET_S: Final = 2.0
"""Seconds that the rounds of one trial should not pass. Eight members of a kernel under
0.5 ms need 0.06 s to the first look; two seconds let kernels of up to 18 ms reach it."""

TURN_WAIT_S: Final = 10.0
"""Seconds to wait while another process tunes the same key: a few budgets, with checks."""

_TIE: Final = {True: "yes", False: "no"}
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_log = logging.getLogger("xpu")

# Re-entrant: a probe may itself have to choose something before it can time.
_trial_turn = threading.RLock()


def _renew_trial_turn() -> None:
    """Let a forked child have trials although one was under way in its parent."""
    global _trial_turn
    _trial_turn = threading.RLock()


os.register_at_fork(after_in_child=_renew_trial_turn)

OnDefault = Callable[[ChoiceResult], None]
OnDropped = Callable[[str, str, str, str], None]
"""Takes family, problem key, the member that a dropped answer named, and what to say."""


class ShapeChoice:
    """Chooses among the survivors of a filter.

    Parameters
    ----------
    store
        What remembers answers; without one every `choose` times.
    foreign_load
        Gives the share of the device that others hold, 0 to 1, or None when unknown.
        Asked before, during and after a trial; from a quarter on the answer is not kept.
    budget_s
        Seconds that the rounds of a trial should not pass. Five rounds are made whatever
        they take, and a kernel whose fourteen rounds do not fit keeps its default unless
        another is far ahead.
    turn_wait_s
        Seconds to wait while another thread or process tunes the same key; then the
        default serves.
    on_default
        Called with each result whose source is ``default``.
    on_dropped
        Called with family, problem key, member and a sentence for each answer that was
        dropped because something that it rested on has changed.

    Notes
    -----
    Safe from several threads. Trials of one process never overlap, whosever they are: each
    would time the other's work.
    """

    def __init__(
        self,
        store: Autotune | None = None,
        foreign_load: ForeignLoad | None = None,
        *,
        budget_s: float = BUDGET_S,
        turn_wait_s: float = TURN_WAIT_S,
        on_default: OnDefault | None = None,
        on_dropped: OnDropped | None = None,
    ) -> None:
        self._store = store
        self._foreign_load = foreign_load
        self._budget_s = budget_s
        self._turn_wait_s = turn_wait_s
        self._on_default = on_default
        self._on_dropped = on_dropped
        self._overrides: dict[str, str] = {}
        self._holders = 0
        self._lock = threading.Lock()
        self._warned: set[tuple[str, str]] = set()

    def override(self, family: str, member: str) -> None:
        """Serve this member of a family, untimed, until cleared."""
        self._overrides[family] = member

    def clear_override(self, family: str) -> None:
        """Choose again in a family; without an override nothing happens."""
        self._overrides.pop(family, None)

    def overridden(self, family: str) -> str | None:
        """Return the member that an override names for a family, None without one."""
        return self._overrides.get(family)

    @property
    def is_held(self) -> bool:
        """Whether a `hold` is open, in any thread."""
        return self._holders > 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Time nothing while the context is open, in any thread; contexts may nest.

        An override or a stored answer still serves, else the default. A trial that is
        already under way is not stopped.
        """
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1

    def choose(
        self,
        f: ShapeFilter,
        probe: TrialProbe | None,
        *,
        identity: Mapping[str, str] = _NOTHING,
        memory: str = "warm",
        may_time: bool = True,
        afresh: bool = False,
    ) -> ChoiceResult:
        """Return the member that serves a filter's problem.

        Parameters
        ----------
        f
            The filter, with its candidates considered.
        probe
            What times candidates, and checks them where it has ``check``; None when
            nothing can be timed.
        identity
            What an answer rests on beyond device facts and code: dtypes, threads, …
        memory
            Memory mode of the probe, ``warm`` or ``cold``; part of what an answer rests on.
        may_time
            Whether a trial is allowed; without it a store's answer or the default serves.
        afresh
            Time although a store has an answer: it knows not of a candidate that is mended.

        Returns
        -------
        ChoiceResult
            With every member that the filter knows. The default is the filter's where it
            survived, else the first survivor in declared order.

        Raises
        ------
        XpuLaunchException
            Nothing survives; or the override is unknown or does not survive; or in the
            trial every survivor is wrong, fails, or gives no good reading.
        """
        if not f.survivors:
            raise XpuLaunchException(f.refusal(), members=members_of(f))
        grounds = None if self._store is None else grounds_of(f, identity, memory)
        case = Case(f, f.survivors, memory, store_name(f, memory), grounds)
        forced = self.overridden(f.name)
        if forced is not None:
            case.refuse_override(forced)
            return case.result(forced, "override")
        if len(case.survivors) == 1:
            return case.result(case.default, "only")
        if probe is None or not may_time or self.is_held:
            return self._recall(case) or self._serve_default(case)
        return (None if afresh else self._recall(case)) or self._in_turn(case, probe, afresh)

    def _recall(self, case: Case) -> ChoiceResult | None:
        store = self._store
        if store is None:
            return None
        known = store.dropped(case.name)
        entry = store.recall(case.name, case.build_id)
        dropped = store.dropped(case.name)
        if entry is None:
            if dropped is not None and dropped is not known:
                self._tell_dropped(case, dropped)
            return None
        if entry.value not in case.names:
            self._warn_stranger(case, entry)
            return None
        margin = entry.notes.get("margin", "")
        is_margin = margin.isascii() and margin.isdigit()
        return case.result(
            entry.value,
            "stored",
            is_stored=True,
            margin=int(margin) if is_margin else None,
            tie=entry.notes.get("tie") == _TIE[True] if is_margin else None,
        )

    def _in_turn(self, case: Case, probe: TrialProbe, afresh: bool) -> ChoiceResult:
        """Time in one's turn; whoever waited finds the answer of the one before."""
        if self._store is None:
            return self._timed(case, probe)
        with self._store.tuning_turn(case.name, self._turn_wait_s) as is_ours:
            recalled = None if afresh and is_ours else self._recall(case)
            if recalled is not None:
                return recalled
            if not is_ours:
                case.notes.append("another process is timing this; the default serves meanwhile")
                return self._serve_default(case, is_stand_in=True)
            return self._timed(case, probe)

    def _timed(self, case: Case, probe: TrialProbe) -> ChoiceResult:
        default, names = case.f.default, case.names
        watch = LoadWatch(self._foreign_load)
        with _trial_turn:
            outcome = Trial(
                [verdict.candidate for verdict in case.survivors],
                probe,
                preferred=names.index(default) if default in names else None,
                budget_s=self._budget_s,
                watch=watch.sample,
            ).run()
        for fault in case.faults(outcome):
            _log.warning("%s: member %s", case.title, fault)
        decision = outcome.decision
        if decision is None:
            raise XpuLaunchException(
                case.nothing_timed(outcome), members=members_of(case.f, outcome)
            )
        if outcome.is_cut:
            case.notes.append(
                f"the budget of {self._budget_s:g} s ended the trial after {outcome.rounds} rounds"
            )
        if watch.is_contended:
            case.notes.append(watch.note)
        return case.result(
            names[decision.winner],
            "timed",
            is_stored=not watch.is_contended and self._remember(case, decision),
            margin=decision.margin_permille,
            tie=decision.is_tie,
            outcome=outcome,
            foreign_load=watch.largest,
        )

    def _remember(self, case: Case, decision: Decision) -> bool:
        if self._store is None:
            return False
        return self._store.remember(
            case.name,
            case.names[decision.winner],
            case.build_id,
            margin=decision.margin_permille,
            tie=None if decision.is_tie is None else _TIE[decision.is_tie],
            memory=case.memory,
            rests=None if case.grounds is None else case.grounds.brief,
        )

    def _serve_default(self, case: Case, *, is_stand_in: bool = False) -> ChoiceResult:
        result = case.result(case.default, "default", is_stand_in=is_stand_in)
        if self._on_default is not None:
            self._on_default(result)
        return result

    def _tell_dropped(self, case: Case, dropped: Entry) -> None:
        text = case.dropped(dropped.value, dropped.notes.get("rests"))
        case.notes.append(text)
        _log.warning("%s: %s", case.title, text)
        if self._on_dropped is not None:
            self._on_dropped(case.f.name, case.f.problem.key, dropped.value, text)

    def _warn_stranger(self, case: Case, entry: Entry) -> None:
        if (case.name, entry.value) in self._warned:
            return
        self._warned.add((case.name, entry.value))
        _log.warning(
            "%s: the stored answer names %r, which is no survivor; it is passed over",
            case.title,
            entry.value,
        )
