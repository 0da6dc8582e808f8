from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from xpu.choice import MemberFault
from xpu.choice.trial import Outcome, Trial
from xpu.errors import XpuPluginError
from xpu.model import ShapeCandidate


def run(probe: Any, preferred: int | None = None, **more: Any) -> Outcome:
    more.setdefault("budget_s", math.inf)
    candidates = [ShapeCandidate(name) for name in probe.times]
    return Trial(candidates, probe, preferred=preferred, **more).run()


def winner(outcome: Outcome) -> str:
    assert outcome.decision is not None
    return outcome.members[outcome.decision.winner].name


def in_rounds(log: list[str], arms: int) -> list[list[str]]:
    return [log[start : start + arms] for start in range(0, len(log), arms)]


@pytest.mark.parametrize("arms", range(2, 10))
def test_every_round_visits_every_arm_once_and_the_start_rotates(
    fake_probe: Any, named: Any, arms: int
) -> None:
    probe = fake_probe(named((100.0,) * arms))
    assert run(probe).rounds == 14
    rounds = in_rounds(probe.log, arms)
    names = list(probe.times)
    for number, visited in enumerate(rounds):
        assert sorted(visited) == names
        start, step = number % arms, -1 if number % 2 else 1
        assert visited == [names[(start + step * place) % arms] for place in range(arms)]


def test_an_arm_at_twice_the_best_is_read_a_handful_of_times(fake_probe: Any, named: Any) -> None:
    for place in range(3):
        times = [100.0, 101.0, 102.0]
        times[place] = 204.0
        probe = fake_probe(named(tuple(times)))
        outcome = run(probe)
        assert Counter(probe.log)[f"t{place}"] == 3
        assert outcome.members[place].status == "left"
        assert outcome.members[place].rounds == 3
    for slow, rounds in ((1000.0, 4), (169.0, 4), (167.0, 5), (150.0, 6), (120.0, 8)):
        probe = fake_probe(named((slow, *(100.0,) * 7)))
        run(probe)
        assert Counter(probe.log)["t0"] == rounds


def test_an_arm_that_was_near_once_is_watched_as_long_as_the_others(
    fake_probe: Any, named: Any
) -> None:
    class Near(fake_probe):  # type: ignore[misc]
        def time_ns(self, candidate: ShapeCandidate) -> float:
            taken: float = super().time_ns(candidate)
            is_first = Counter(self.log)[candidate.name] == 1
            return 100.0 if is_first else taken

    probe = Near(named((300.0, *(100.0,) * 7)))
    run(probe)
    assert Counter(probe.log)["t0"] == 1 + 8


def test_outliers_make_no_arm_leave() -> None:
    rng = random.Random(1)

    class Outliers:
        def time_ns(self, _candidate: ShapeCandidate) -> float:
            return 1000 * rng.gauss(1, 0.01) * (2.5 if rng.random() < 0.1 else 1)

    left = wrong = 0
    for _ in range(300):
        candidates = [ShapeCandidate(f"a{place}") for place in range(8)]
        outcome = Trial(candidates, Outliers(), preferred=7, budget_s=1e9).run()
        left += any(member.status == "left" for member in outcome.members)
        wrong += outcome.decision is None or outcome.decision.winner != 7
    assert left <= 3
    assert wrong == 0


def test_ten_percent_leaves_and_a_little_less_stays(fake_probe: Any, named: Any) -> None:
    for slow, status in ((110.0, "left"), (109.9, "survivor")):
        assert run(fake_probe(named((slow, 100.0)))).members[0].status == status


def test_successive_starts_differ_while_arms_leave(fake_probe: Any, named: Any) -> None:
    probe = fake_probe(named((100.0, 120.0, 99.9, 130.0, 99.8, 140.0, 99.7)))
    outcome = run(probe)
    assert Counter(member.status for member in outcome.members) == {"survivor": 4, "left": 3}
    starts = [*(visited[0] for visited in in_rounds(probe.log[:49], 7))]
    starts += [visited[0] for visited in in_rounds(probe.log[49:], 4)]
    assert len(starts) == outcome.rounds
    assert all(one != other for one, other in itertools.pairwise(starts))


def test_at_least_five_rounds_even_when_the_others_have_left(fake_probe: Any, named: Any) -> None:
    outcome = run(fake_probe(named((100.0, 300.0))), budget_s=0.0)
    assert [member.rounds for member in outcome.members] == [5, 3]
    assert run(fake_probe(named((100.0,)))).rounds == 5


@pytest.mark.parametrize("bad", [0, 0.0, -1, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(3))
def test_an_arm_that_only_reads_badly_never_wins(
    fake_probe: Any, named: Any, bad: float, place: int
) -> None:
    def at(name: str, count: int, time: float) -> float:
        return bad if name == f"t{place}" else time

    outcome = run(fake_probe(named((100.0, 100.0, 100.0)), at=at), preferred=place)
    assert winner(outcome) != f"t{place}"
    assert outcome.members[place].status == "failed"
    assert outcome.members[place].median_ns is None
    assert outcome.decision is not None
    assert outcome.decision.margin_permille == 0


@pytest.mark.parametrize("bad", [0.0, -5.0, math.nan, math.inf])
@pytest.mark.parametrize("every", [2, 3, 7])
@pytest.mark.parametrize("place", range(3))
def test_an_arm_that_reads_badly_now_and_then_wins_by_its_good_readings(
    fake_probe: Any, named: Any, bad: float, every: int, place: int
) -> None:
    times = [105.0, 108.0, 112.0]
    times[place] = 100.0

    def at(name: str, count: int, time: float) -> float:
        return bad if name == f"t{place}" and count % every == 0 else time

    outcome = run(fake_probe(named(tuple(times)), at=at))
    assert winner(outcome) == f"t{place}"
    assert outcome.members[place].median_ns == 100.0
    assert "readings were bad" in outcome.members[place].note


def test_a_slow_arm_leaves_through_bad_readings_too(fake_probe: Any, named: Any) -> None:
    def at(name: str, count: int, time: float) -> float:
        return math.nan if name == "t0" and count % 2 else time

    probe = fake_probe(named((200.0, 100.0)), at=at)
    assert winner(run(probe, preferred=0)) == "t1"
    assert Counter(probe.log)["t0"] == 5


def test_all_readings_bad_is_no_decision(fake_probe: Any, named: Any) -> None:
    outcome = run(fake_probe(named((0.0, -1.0, math.nan))))
    assert outcome.decision is None
    assert {member.status for member in outcome.members} == {"failed"}


@pytest.mark.parametrize("reading", ["fast", None, 10**400, [1.0], 1j])
def test_what_is_no_number_is_a_failure_of_the_member(
    fake_probe: Any, named: Any, reading: object
) -> None:
    probe = fake_probe(named((50.0, 100.0)), at=lambda n, _c, t: reading if n == "t0" else t)
    outcome = run(probe)
    assert winner(outcome) == "t1"
    assert outcome.members[0].status == "failed"
    assert outcome.members[0].note


def test_checks_come_before_any_reading_and_wrong_ones_are_not_timed(
    checking_probe: Any, named: Any
) -> None:
    faults = {
        "t0": False,
        "t1": ValueError("row 3\n  is off"),
        "t2": MemberFault("hung", "20 s"),
        "t3": MemberFault("crashed", "signal 11"),
    }
    probe = checking_probe(named((10.0,) * 4 + (100.0, 101.0)), faults)
    outcome = run(probe)
    assert probe.checked == list(probe.times)
    assert set(probe.log) == {"t4", "t5"}
    statuses = [member.status for member in outcome.members]
    assert statuses == ["wrong", "wrong", "hung", "crashed", "survivor", "survivor"]
    assert outcome.members[1].note == "ValueError: row 3 is off"
    assert outcome.members[3].note == "signal 11"
    assert winner(outcome) == "t4"


@pytest.mark.parametrize("where", ["check", "time_ns"])
def test_a_fault_that_all_have_in_common_ends_the_trial_and_condemns_nobody(
    where: str, checking_probe: Any, named: Any
) -> None:
    error = XpuPluginError("plugin 'acme' of acme-xpu: design 'd': D.data() raised KeyError")

    def at(name: str, count: int, time: float) -> float:
        raise error

    more = {"at": at} if where == "time_ns" else {}
    probe = checking_probe(named((10.0, 20.0)), {"t0": error} if not more else {}, **more)
    with pytest.raises(XpuPluginError) as raised:
        run(probe)
    assert raised.value is error


def test_one_right_member_is_still_read_five_times(checking_probe: Any, named: Any) -> None:
    outcome = run(checking_probe(named((10.0, 100.0)), {"t0": False}))
    assert winner(outcome) == "t1"
    assert outcome.rounds == 5
    assert outcome.decision is not None
    assert outcome.decision.margin_permille is None


def test_none_right_none_timed(checking_probe: Any, named: Any) -> None:
    probe = checking_probe(named((10.0, 100.0)), {"t0": False, "t1": 0})
    assert run(probe).decision is None
    assert probe.log == []


@pytest.mark.parametrize("round_of_fault", [0, 1, 3, 4])
def test_a_member_that_fails_midway_takes_its_readings_with_it(
    fake_probe: Any, named: Any, round_of_fault: int
) -> None:
    def at(name: str, count: int, time: float) -> float:
        if name == "t1" and count == round_of_fault:
            raise MemberFault("crashed", "signal 11")
        return time

    # Beside the faulty arm all others were slow enough to leave.
    probe = fake_probe(named((106.0, 50.0, 100.0, 250.0)), at=at)
    outcome = run(probe)
    assert winner(outcome) == "t2"
    assert outcome.members[1].status == "crashed"
    assert outcome.members[3].status == "left"
    assert outcome.decision is not None
    assert outcome.decision.margin_permille == round(1000 * 6 / 106)


def test_a_failure_does_not_cut_its_round_short(fake_probe: Any, named: Any) -> None:
    def at(name: str, count: int, time: float) -> float:
        if name == "t1":
            raise RuntimeError
        return time

    probe = fake_probe(named((100.0, 50.0, 101.0)), at=at)
    assert run(probe).members[1].note == "RuntimeError"
    assert probe.log[:5] == ["t0", "t1", "t2", "t2", "t0"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through(
    fake_probe: Any, checking_probe: Any, named: Any, stop: Callable[[], BaseException]
) -> None:
    def at(name: str, count: int, time: float) -> float:
        if count == 2:
            raise stop()
        return time

    with pytest.raises(stop):  # type: ignore[call-overload]
        run(fake_probe(named((100.0, 50.0)), at=at))
    with pytest.raises(stop):  # type: ignore[call-overload]
        run(checking_probe(named((100.0, 50.0)), {"t0": stop()}))


class Watch:
    """A clock that a probe moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def bracket(self, seconds: float) -> Callable[[str, int, float], float]:
        def at(name: str, count: int, time: float) -> float:
            self.now += seconds
            return time

        return at


@pytest.mark.parametrize(
    ("budget_s", "rounds", "is_cut"),
    [(0.0, 5, True), (7.9, 8, True), (13.9, 14, True), (23.5, 14, True), (24.5, 24, False)],
)
def test_rounds_stay_inside_the_budget(
    fake_probe: Any, named: Any, budget_s: float, rounds: int, is_cut: bool
) -> None:
    clock = Watch()
    bracket = clock.bracket(0.5)  # two arms: a second for a round

    def at(name: str, count: int, time: float) -> float:
        bracket(name, count, time)
        if count == 0:
            clock.now += 100.0  # what a probe sets up once does not count
        # Slower but for one round: proven at the second look, not at the first.
        return 100.0 if name == "t0" and count == 6 else time

    outcome = run(
        fake_probe(named((104.0, 100.0)), at=at), budget_s=budget_s, clock=lambda: clock.now
    )
    assert (outcome.rounds, outcome.is_cut) == (rounds, is_cut)
    assert winner(outcome) == ("t0" if is_cut else "t1")


def test_the_budget_waits_for_arms_that_are_about_to_leave(fake_probe: Any, named: Any) -> None:
    clock = Watch()
    times = (120.0, 119.0, 121.0, 120.5, 119.5, 120.1, 100.0, 119.9)
    probe = fake_probe(named(times), at=clock.bracket(0.5))
    outcome = run(probe, preferred=0, budget_s=2.0, clock=lambda: clock.now)
    assert winner(outcome) == "t6"
    assert outcome.rounds == len(times)


def test_checks_do_not_count_against_the_budget(checking_probe: Any, named: Any) -> None:
    clock = Watch()

    class Slow(checking_probe):  # type: ignore[misc]
        def check(self, candidate: ShapeCandidate) -> bool:
            clock.now += 1000.0
            return True

    probe = Slow(named((103.0, 100.0)), {}, at=clock.bracket(0.001))
    outcome = run(probe, budget_s=1.0, clock=lambda: clock.now)
    assert winner(outcome) == "t1"
    assert outcome.check_s == 2000.0
    assert outcome.rounds_s == pytest.approx(0.001 * 2 * outcome.rounds)


def test_eight_members_take_no_more_brackets_than_the_first_look(
    fake_probe: Any, named: Any
) -> None:
    probe = fake_probe(named(tuple(100.0 + 1.3 * place for place in range(8))))
    assert winner(run(probe)) == "t0"
    assert len(probe.log) == 8 * 14  # 0.06 s at half a millisecond each


def test_load_is_watched_before_during_and_after(fake_probe: Any, named: Any) -> None:
    probe = fake_probe(named((100.0, 101.0)))
    seen: list[int] = []
    run(probe, watch=lambda: seen.append(len(probe.log)))
    assert seen[0] == 0
    assert seen[-1] == len(probe.log)
    assert any(0 < at < len(probe.log) for at in seen)
