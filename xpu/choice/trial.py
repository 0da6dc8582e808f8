"""The trial: which member is read when, and how long it goes on.

Pure scheduling over a probe. Every round visits every arm that is still in once; the
starting arm rotates, and odd rounds run backwards from their starting arm, because with
plain rotation a steady drift of the clock would put one arm behind another in most rounds
and prove a false order. What the readings mean is the decision's business; `ShapeChoice`
calls this and turns the outcome into an answer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from xpu.choice.decision import LOOKS, Decision, Reading, decide, is_good
from xpu.choice.fault import MemberFault
from xpu.errors import XpuPluginError
from xpu.model import MemberResult, ShapeCandidate, Status

LEAST_ROUNDS: Final = 5
"""Rounds that are made whatever they cost. Source: seeds, "Regression guard": N >= 5."""

LEAVES_AT: Final = 1.1
"""An arm that is so many times the round's best, or more, is on its way out."""

LEAVES_AFTER: Final = 3
"""Successive rounds of that after which it leaves; one for each arm when there are more.

In as many rounds as there are arms each has started once, so that under a steady drift
no arm is the last read, and slowest, in all of them. Source: design, "Trial"."""

BEHIND: Final = 8.0
"""An arm that was slower by `LEAVES_AT` in every round so far leaves when its times over the
rounds' best, multiplied, come to this, and it was read both before and after the best one: of
equal arms under a steady drift the best is always the first read, or always the last."""

MOST_OF_A_ROUND: Final = 2.0
"""What one round counts for at most in that product: an outlier of a hundred times is still one."""

BEHIND_ROUNDS: Final = 4
"""Rounds of that at the least. Where one reading in ten is an outlier, an arm as fast as the others
is so slow in all of the first four once in 10,000 times."""

_WATCHED: Final = (0, 2, *LOOKS[:-1])
"""Rounds before which the device's load is looked at: the first, one early on, and those
after a look."""


class TrialProbe(Protocol):
    """What a trial needs: one bracket of a candidate at a time.

    It may also have ``check(candidate) -> bool``: whether the candidate computes what it
    should. Either may raise: the candidate is then `failed`, or `wrong` from a check,
    unless a `MemberFault` says otherwise. An `XpuPluginError` ends the trial: what fails is
    common to all candidates, and none of them is to blame.
    """

    def time_ns(self, candidate: ShapeCandidate) -> float:
        """Return nanoseconds a launch, from one bracket; warm-up is not asked for."""


@attrs.frozen
class Outcome:
    """What a trial found: each arm's result in declared order, and the decision, if any.

    `is_cut`: the budget ended it before the readings did. `check_s` and `rounds_s` are the
    seconds of checks and of rounds; what a probe sets up in either belongs to it.
    """

    members: tuple[MemberResult, ...]
    decision: Decision | None
    rounds: int
    is_cut: bool
    check_s: float
    rounds_s: float


@attrs.define
class _Arm:
    """One candidate in the trial."""

    candidate: ShapeCandidate
    fault: MemberFault | None = None
    has_left: bool = False
    streak: int = 0
    behind: float = 1.0  # 0 from the first round on in which it was near
    sides: set[bool] = attrs.field(factory=set)  # whether it was read before the round's best

    @property
    def is_in(self) -> bool:
        return self.fault is None and not self.has_left


class Trial:
    """One trial of some candidates through a probe; `run` it once.

    Parameters
    ----------
    candidates
        The arms, in declared order.
    probe
        What checks and times them.
    preferred
        Place of the default among them; None when it is not there.
    budget_s
        Seconds that the rounds should not pass. Checks are not counted, and the first
        round, in which a probe may set up, only as one like the others. Five rounds are
        made whatever they take, and so are those in which an arm is about to leave; a
        further look is gone for only when it is expected inside the budget.
    watch
        Called before the first round, during the trial and after the last one.
    clock
        Seconds from any start; what the budget is measured with.
    """

    def __init__(
        self,
        candidates: Sequence[ShapeCandidate],
        probe: TrialProbe,
        *,
        preferred: int | None,
        budget_s: float,
        watch: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._arms = [_Arm(candidate) for candidate in candidates]
        self._probe = probe
        self._preferred = preferred
        self._budget_s = budget_s
        self._watch = watch
        self._clock = clock
        self._rounds: list[list[Reading]] = []
        self._least_rounds = LEAST_ROUNDS
        self._patience = 0
        self._last_start = -1
        self._set_up_s = 0.0
        self._is_cut = False

    def run(self) -> Outcome:
        """Check every candidate, time those that passed, and decide."""
        began_s = self._clock()
        self._check()
        checked_s = self._clock()
        self._patience = max(LEAVES_AFTER, len(self._inside()))
        while self._goes_on():
            if len(self._rounds) in _WATCHED:
                self._watch()
            self._play_round()
            if len(self._rounds) == 1:
                self._set_up_s = self._clock()
        self._watch()
        members = tuple(self._result(index) for index in range(len(self._arms)))
        return Outcome(
            members,
            self._decide(),
            len(self._rounds),
            self._is_cut,
            check_s=checked_s - began_s,
            rounds_s=self._clock() - checked_s,
        )

    def _check(self) -> None:
        check = getattr(self._probe, "check", None)
        if check is None:
            return
        for arm in self._arms:
            try:
                if not check(arm.candidate):
                    arm.fault = MemberFault("wrong", "its output is not the reference's")
            except XpuPluginError:
                raise
            except Exception as error:
                arm.fault = MemberFault.of(error, "wrong")

    def _inside(self) -> list[int]:
        return [index for index, arm in enumerate(self._arms) if arm.is_in]

    def _goes_on(self) -> bool:
        made, inside = len(self._rounds), len(self._inside())
        if made < self._least_rounds or inside == 0:
            return inside > 0
        decision = self._decide() if inside == 1 or made in LOOKS else None
        if made >= LOOKS[-1] or (inside == 1 and decision is not None):
            return False
        goal = made
        if made in LOOKS:
            if decision is None or not decision.is_open:
                return False
            goal = LOOKS[LOOKS.index(made) + 1]
        # Rounds so far foretell those to come; rounds that reach no further look prove nothing.
        # The first tells nothing: in it a probe may load code and copy data.
        round_s = (self._clock() - self._set_up_s) / (made - 1)
        # An arm that is about to leave may still do so: a few rounds more and it is behind.
        self._is_cut = round_s * goal > self._budget_s and not self._is_one_leaving()
        return not self._is_cut

    def _is_one_leaving(self) -> bool:
        return any(self._arms[index].streak >= LEAVES_AFTER for index in self._inside())

    def _play_round(self) -> None:
        row: list[Reading] = [None] * len(self._arms)
        order = self._order()
        for index in order:
            arm = self._arms[index]
            try:
                row[index] = float(self._probe.time_ns(arm.candidate))
            except XpuPluginError:
                raise
            except Exception as error:
                arm.fault = MemberFault.of(error, "failed")
                self._readmit()
        self._rounds.append(row)
        self._see_who_leaves(row, order)

    def _order(self) -> list[int]:
        """Return the arms of the next round in the order in which they are read."""
        inside = self._inside()
        start = next((arm for arm in inside if arm > self._last_start), inside[0])
        self._last_start = start
        turn = inside.index(start)
        order = inside[turn:] + inside[:turn]
        return [start, *reversed(order[1:])] if len(self._rounds) % 2 else order

    def _see_who_leaves(self, row: Sequence[Reading], order: Sequence[int]) -> None:
        inside = self._inside()
        readings = {arm: reading for arm in order if arm in inside if is_good(reading := row[arm])}
        best, is_before = min(readings.values(), default=0.0), True
        for index, reading in readings.items():
            # An arm that read badly keeps its streak: the round says nothing of it.
            arm, slower = self._arms[index], reading / best
            is_before = is_before and reading > best
            is_slower = slower >= LEAVES_AT
            arm.streak = arm.streak + 1 if is_slower else 0
            arm.behind *= min(slower, MOST_OF_A_ROUND) if is_slower else 0.0
            arm.sides.add(is_before)
            is_behind = arm.behind >= BEHIND and arm.streak >= BEHIND_ROUNDS
            arm.has_left = arm.streak >= self._patience or (is_behind and len(arm.sides) == 2)

    def _readmit(self) -> None:
        """Take back whoever left: perhaps it was the faulty arm that they were slower than."""
        if any(arm.has_left for arm in self._arms):
            self._least_rounds = len(self._rounds) + 1 + LEAST_ROUNDS
        for arm in self._arms:
            arm.has_left, arm.streak, arm.behind, arm.sides = False, 0, 1.0, set()

    def _decide(self) -> Decision | None:
        able = [index for index, arm in enumerate(self._arms) if arm.fault is None]
        left = [index for index in able if self._arms[index].has_left]
        return decide(self._rounds, able, left=left, preferred=self._preferred)

    def _result(self, index: int) -> MemberResult:
        arm = self._arms[index]
        readings = [row[index] for row in self._rounds if row[index] is not None]
        good = [reading for reading in readings if is_good(reading)]
        status: Status = "left" if arm.has_left else "survivor"
        note = f"{len(readings) - len(good)} of {len(readings)} readings were bad"
        if arm.fault is not None:
            status, note = arm.fault.status, arm.fault.note
        elif not good:
            status = "failed"
        elif len(good) == len(readings):
            note = ""
        return MemberResult(
            arm.candidate.name,
            status,
            median_ns=statistics.median(good) if good else None,
            rounds=len(readings),
            note=note,
        )
