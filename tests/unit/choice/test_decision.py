from __future__ import annotations

import itertools
import math
import random

import pytest

from xpu.choice.decision import (
    decide,
    is_behind,
    is_good,
    margin_permille,
    rounds_needed,
    slower_rounds,
)

NAN = math.nan


def constant(*times: float, rounds: int = 14) -> list[list[float | None]]:
    return [list(times) for _ in range(rounds)]


@pytest.mark.parametrize(
    ("paired", "needed"), [(13, 14), (14, 14), (16, 16), (24, 22), (40, 32), (64, 48)]
)
def test_sign_test_needs_what_the_binomial_tail_says(paired: int, needed: int) -> None:
    # Counted by hand from all outcomes of fair coins, not by the formula that is tested.
    ways = [1]
    for _ in range(paired):
        ways = [a + b for a, b in zip([0, *ways], [*ways, 0], strict=True)]
    tails = [sum(ways[slower:]) / 2**paired for slower in range(paired + 1)]
    expected = next((k for k, tail in enumerate(tails) if tail <= 1e-4), paired + 1)
    assert rounds_needed(paired) == expected == needed


def test_fewer_than_fourteen_rounds_prove_nothing() -> None:
    for paired in range(14):
        assert rounds_needed(paired) == paired + 1
        assert not is_behind(constant(200, 100, rounds=paired), 0, 1)
    assert is_behind(constant(200, 100), 0, 1)


def test_thirteen_of_fourteen_is_not_enough_and_twenty_two_of_twenty_four_is() -> None:
    slower, faster = [105.0, 100.0], [95.0, 100.0]
    assert not is_behind([slower] * 13 + [faster], 0, 1)
    assert is_behind([slower] * 22 + [faster] * 2, 0, 1)
    assert not is_behind([slower] * 21 + [faster] * 3, 0, 1)


def test_three_permille_is_not_slower() -> None:
    assert slower_rounds(constant(100.3, 100, rounds=20), 0, 1) == (0, 20)
    assert slower_rounds(constant(100.31, 100, rounds=20), 0, 1) == (20, 20)


@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, math.inf, -math.inf, None])
def test_a_bad_reading_pairs_with_nothing(bad: float | None) -> None:
    assert not is_good(bad)
    assert slower_rounds([[105.0, 100.0], [bad, 100.0], [105.0, bad]], 0, 1) == (1, 1)


def test_first_declared_wins_until_proven_behind_and_the_default_before_it() -> None:
    rounds = constant(100, 100.1, 99.9)
    for preferred, winner in ((None, 0), (1, 1), (2, 2)):
        decision = decide(rounds, (0, 1, 2), preferred=preferred)
        assert decision is not None
        assert decision.winner == winner
    decision = decide(constant(100, 98, 110), (0, 1, 2), preferred=2)
    assert decision is not None
    assert decision.winner == 1


def test_an_arm_that_left_neither_wins_nor_puts_others_behind() -> None:
    decision = decide(constant(90, 100, 101), (0, 1, 2), left=(0,), preferred=0)
    assert decision is not None
    assert decision.winner == 1
    assert not decision.is_open


def test_orders_in_a_circle_give_the_lowest_paired_median() -> None:
    # Each arm is slower than the one before it in three rounds of four, the third narrowly.
    turns = [
        (100.0, 104.0, 104.5, 112.0),
        (104.0, 108.0, 108.5, 100.0),
        (108.0, 112.0, 100.0, 104.0),
        (112.0, 100.0, 100.5, 108.0),
    ]
    rounds = [list(turn) for turn in turns for _ in range(16)]
    for arm in range(4):
        assert is_behind(rounds, (arm + 1) % 4, arm)
    decision = decide(rounds, range(4))
    assert decision is not None
    assert decision.winner == 2


@pytest.mark.parametrize(
    ("times", "winner", "margin"),
    [
        ((100, 98, 200), 1, 20),
        ((100, 80, 200), 1, 200),
        ((300, 280, 307), 1, 67),
        ((98, 100), 0, 20),
        ((100, 100), 0, 0),
        ((100, 90), 0, 0),
        ((970, 1000), 0, 30),
        ((971, 1000), 0, 29),
    ],
)
def test_margin_in_permille_of_the_runner_up(
    times: tuple[float, ...], winner: int, margin: int
) -> None:
    assert margin_permille(constant(*times), range(len(times)), winner) == margin


def test_margin_counts_an_arm_that_left_over_its_own_rounds_only() -> None:
    # The clock doubles after the second arm left: its three rounds still say 200.
    rounds: list[list[float | None]] = [[80.0, 100.0] for _ in range(3)]
    rounds += [[160.0, None] for _ in range(11)]
    decision = decide(rounds, (0, 1), left=(1,))
    assert decision is not None
    assert (decision.winner, decision.margin_permille, decision.is_tie) == (0, 200, False)


def test_margin_is_deaf_to_a_clock_that_wanders() -> None:
    rng = random.Random(5)
    rounds = [[speed * 100, speed * 98] for speed in (rng.uniform(0.1, 9) for _ in range(24))]
    assert margin_permille(rounds, (0, 1), 1) == 20


def test_tie_is_a_margin_under_thirty() -> None:
    for loser, is_tie in ((1000, True), (1031, False)):
        decision = decide(constant(1000, loser), (0, 1))
        assert decision is not None
        assert decision.is_tie is is_tie


def test_no_other_arm_no_margin_and_no_tie() -> None:
    decision = decide(constant(5.0), (0,))
    assert decision is not None
    assert (decision.margin_permille, decision.is_tie) == (None, None)
    shared_nothing = [[100.0, NAN], [NAN, 100.0]] * 7
    assert margin_permille(shared_nothing, (0, 1), 0) is None


def test_no_good_reading_no_decision() -> None:
    assert decide(constant(0.0, NAN, -3.0), (0, 1, 2)) is None
    assert decide(constant(5.0, 5.0), ()) is None


def test_an_arm_that_can_hardly_be_read_does_not_win_by_that() -> None:
    rounds = [[50.0 if place % 16 == 0 else NAN, 100.0] for place in range(64)]
    decision = decide(rounds, (0, 1), preferred=0)
    assert decision is not None
    assert decision.winner == 1


def test_readings_at_the_edge_of_what_a_float_holds() -> None:
    tiny, huge = 5e-324, 1.7e308
    for times in itertools.permutations((tiny, huge, 1.0)):
        decision = decide(constant(*times), (0, 1, 2))
        assert decision is not None
        assert times[decision.winner] == tiny


def test_open_while_the_trend_is_against_the_winner() -> None:
    slower, equal = [105.0, 100.0], [100.0, 100.0]
    for rounds, is_open in (
        ([slower] * 13 + [equal], True),
        ([slower] * 8 + [equal] * 6, True),
        ([slower] * 7 + [equal] * 7, False),
        ([slower] * 14, False),
    ):
        decision = decide(rounds, (0, 1))
        assert decision is not None
        assert decision.is_open is is_open
