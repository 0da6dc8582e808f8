"""A tuning: whole answers, a budget that stops between questions, and what is left of them."""

from __future__ import annotations

import types

import pytest

from xpu import XpuLaunchException
from xpu.model import ChoiceResult, Family, Problem
from xpu.orchestrator import Tuning
from xpu.probes import Question

QUESTIONS = [Question("one", Problem(n=n), memory) for n, memory in ((1, "warm"), (2, "cold"))] + [
    Question("one", Problem(n=n)) for n in (3, 4, 5)
]


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Answers:
    """An orchestrator of which a question takes as many seconds as its size."""

    def __init__(self, clock: Clock, stored=(), faults=(), contended=(), busy=()) -> None:
        self.asked = []
        self._busy = dict(busy)
        self.settings = types.SimpleNamespace(family=lambda name: Family(name, "any", ("n",), ()))
        self.registry = types.SimpleNamespace(design_of=lambda family: family.design)
        self._clock = clock
        self._stored, self._faults, self._contended = set(stored), dict(faults), set(contended)

    def choose(self, family, problem, *, memory, data):
        self.asked.append((problem.n, memory, data))
        if problem.n in self._faults:
            raise self._faults[problem.n]
        if self._busy.get(problem.n):
            self._busy[problem.n] -= 1
            return ChoiceResult(family, problem.key, "default", "default", is_stand_in=True)
        is_stored = problem.n in self._stored
        self._clock.now_s += 0.01 if is_stored else problem.n
        return ChoiceResult(
            family,
            problem.key,
            "member",
            "stored" if is_stored else "timed",
            timed=not is_stored,
            foreign_load=0.9 if problem.n in self._contended else 0.0,
        )


def sizes(questions) -> list[int]:
    return [question.problem.n for question in questions]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_every_question_is_answered_in_order_in_its_memory_mode(clock) -> None:
    host = Answers(clock)
    tuning = Tuning(host, QUESTIONS, clock=clock)
    found = list(tuning.run())
    assert host.asked == [
        (1, "warm", None), (2, "cold", None), (3, "warm", None), (4, "warm", None),
        (5, "warm", None),
    ]  # fmt: skip
    assert [answer.seconds for answer in found] == [1, 2, 3, 4, 5]
    assert found == tuning.answers
    assert (tuning.left, tuning.unkept, tuning.is_spent) == ((), (), False)


@pytest.mark.parametrize(
    ("budget_s", "left"),
    [(-1.0, [1, 2, 3, 4, 5]), (0.5, [2, 3, 4, 5]), (3.0, [3, 4, 5]), (15.5, [])],
)
def test_a_spent_budget_begins_nothing_and_cuts_nothing_short(clock, budget_s, left) -> None:
    tuning = Tuning(Answers(clock), QUESTIONS, budget_s=budget_s, clock=clock)
    list(tuning.run())
    assert sizes(tuning.left) == left
    assert tuning.is_spent == bool(left)


def test_what_is_stored_costs_so_little_that_a_second_run_goes_on(clock) -> None:
    left, stored = list(QUESTIONS), set()
    for _ in range(5):
        tuning = Tuning(Answers(clock, stored), QUESTIONS, budget_s=4.0, clock=clock)
        stored |= {answer.question.problem.n for answer in tuning.run()}
        assert len(tuning.left) < len(left)
        left = tuning.left
        if not left:
            break
    assert not left


def test_one_question_that_fails_costs_no_other(clock) -> None:
    host = Answers(clock, faults={2: XpuLaunchException("nothing survives")})
    tuning = Tuning(host, QUESTIONS, clock=clock)
    list(tuning.run())
    assert [answer.result.member for answer in tuning.answers] == ["member", ""] + ["member"] * 3
    assert tuning.answers[1].result.note == "nothing survives"
    assert tuning.left == ()


def test_what_another_process_is_timing_is_asked_again_at_the_end(clock) -> None:
    tuning = Tuning(Answers(clock, busy={2: 1, 4: 2}), QUESTIONS, clock=clock)
    list(tuning.run())
    assert sizes(answer.question for answer in tuning.answers) == [1, 3, 5, 2]
    assert {answer.result.source for answer in tuning.answers} == {"timed"}
    # The other one is still at it: a default that stands in is no answer.
    assert sizes(tuning.left) == [4]
    list(tuning.run())
    assert tuning.left == ()


def test_a_question_is_not_asked_again_beyond_the_budget(clock) -> None:
    host = Answers(clock, busy={1: 1})
    tuning = Tuning(host, QUESTIONS, budget_s=14.0, clock=clock)
    list(tuning.run())
    assert [n for n, _, _ in host.asked] == [1, 2, 3, 4, 5]
    assert sizes(tuning.left) == [1]


def test_an_interruption_leaves_whole_answers_and_the_question_it_fell_into(clock) -> None:
    host = Answers(clock, faults={3: KeyboardInterrupt()})
    tuning = Tuning(host, QUESTIONS, clock=clock)
    with pytest.raises(KeyboardInterrupt):
        list(tuning.run())
    assert sizes(answer.question for answer in tuning.answers) == [1, 2]
    assert sizes(tuning.left) == [3, 4, 5]


def test_answers_that_were_not_kept_are_left_and_asked_once(clock) -> None:
    host = Answers(clock, contended={4})
    tuning = Tuning(host, QUESTIONS, clock=clock)
    told = [tuning.seconds_left() for _ in tuning.run()]
    assert sizes(answer.question for answer in tuning.unkept) == [4]
    assert (sizes(tuning.left), tuning.unanswered) == ([4], ())
    # Twice in a row, for a burst may be over; at the end of the run not again.
    assert [n for n, _, _ in host.asked] == [1, 2, 3, 4, 4, 5]
    assert told[-1] == 0


def test_of_a_spent_budget_what_was_not_kept_is_left_with_what_was_not_begun(clock) -> None:
    tuning = Tuning(Answers(clock, contended={2}), QUESTIONS, budget_s=5.0, clock=clock)
    list(tuning.run())
    assert sizes(tuning.left) == [2, 3, 4, 5]
    assert sizes(tuning.unanswered) == [3, 4, 5]


def test_the_time_left_is_that_of_questions_that_were_timed(clock) -> None:
    tuning = Tuning(Answers(clock, stored={1, 4}), QUESTIONS, clock=clock)
    assert tuning.seconds_left() is None
    told = [tuning.seconds_left() for _ in tuning.run()]
    # At first only a recalled one is known, then the mean of those that were timed.
    assert told == pytest.approx([0.04, 2 * 3, 2.5 * 2, 2.5, 0])


def test_the_time_left_stays_within_the_budget(clock) -> None:
    tuning = Tuning(Answers(clock), QUESTIONS, budget_s=4.0, clock=clock)
    told = [tuning.seconds_left() for _ in tuning.run()]
    assert told == pytest.approx([3, 1, 0])


def test_a_models_weights_are_timed_on_where_it_has_them(clock) -> None:
    weights = {2: {"weights": "rows"}}
    model = types.SimpleNamespace(data=lambda family, design, problem: weights.get(problem.n))
    host = Answers(clock)
    list(Tuning(host, QUESTIONS[:3], model=model, clock=clock).run())
    assert [data for _, _, data in host.asked] == [None, weights[2], None]
