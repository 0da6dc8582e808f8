from __future__ import annotations

import math

import numpy as np
import pytest
from standings import (
    LEAST_READINGS,
    Standing,
    best_of,
    flips,
    noise_of,
    oracle_of,
    pooled,
    regret,
    tally,
)

NAMES = ("a", "b", "c")


def rounds(*us: float, count: int = 40, noise: float = 0.0, drift: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(3)
    clock = np.linspace(1.0, 1.0 + drift, count)[:, None]
    return np.array(us) * clock * np.exp(noise * rng.standard_normal((count, len(us))))


def standings(**excess: float) -> dict[str, Standing]:
    return {name: Standing(each, 0.0, 100 * (1 + each)) for name, each in excess.items()}


def test_an_oracle_is_deaf_to_a_clock_that_drifts() -> None:
    found = pooled([oracle_of(NAMES, rounds(103.0, 100.0, 110.0, drift=0.5))])
    assert best_of(found) == "b"
    assert [found[name].excess for name in NAMES] == pytest.approx([0.03, 0.0, 0.1])
    assert noise_of(found) == pytest.approx(0.0, abs=1e-12)


def test_noise_is_what_the_excess_is_off_by() -> None:
    few, many = (
        pooled([oracle_of(NAMES, rounds(101.0, 100.0, 150.0, count=count, noise=0.01))])
        for count in (40, 4000)
    )
    for found in (few, many):
        assert abs(found["a"].excess - 0.01) < 4 * found["a"].noise
    assert few["a"].noise == pytest.approx(0.01 * math.sqrt(2) * 1.2533 / math.sqrt(40), rel=0.4)
    assert few["a"].noise == pytest.approx(10 * many["a"].noise, rel=0.4)


def test_the_noise_of_a_member_far_behind_is_nobodys() -> None:
    times = rounds(100.0, 101.0, 200.0)
    times[::2, 2] *= 1.5
    assert noise_of(pooled([oracle_of(NAMES, times)])) < 1e-9


def test_bad_readings_are_passed_over_and_a_member_without_good_ones_is_left_out() -> None:
    times = rounds(101.0, 100.0, 90.0)
    times[:3, 0] = np.nan
    times[LEAST_READINGS - 1 :, 2] = np.nan
    found = pooled([oracle_of(NAMES, times)])
    assert set(found) == {"a", "b"}
    assert found["a"].excess == pytest.approx(0.01)
    assert oracle_of(NAMES, np.full((9, 3), np.nan)) == {}
    assert pooled([{}]) == {}


def test_oracles_that_differ_are_as_noisy_as_they_differ() -> None:
    found = pooled([oracle_of(NAMES, rounds(100.0, us, 120.0)) for us in (101.0, 103.0)])
    assert found["b"].excess == pytest.approx(math.sqrt(1.01 * 1.03) - 1)
    assert found["b"].noise == pytest.approx(math.log(1.03 / 1.01) / 2)
    assert found["b"].us == pytest.approx(102.0)


def test_the_best_may_be_second_in_each_oracle() -> None:
    found = pooled([oracle_of(NAMES, rounds(*us)) for us in ((100, 101, 104), (104, 101, 100))])
    assert best_of(found) == "b"
    assert min(one.excess for one in found.values()) == 0.0
    assert found["a"].excess > 0


def test_regret() -> None:
    known = standings(a=0.0, b=0.02)
    assert [regret(known, name) for name in ("a", "b")] == [0.0, 0.02]
    assert regret(known, "stranger") == regret(known, None) == math.inf


@pytest.mark.parametrize(
    ("winners", "pairs"),
    [
        (["b"] * 5, []),  # always the same: regret, but no flip
        (["a", "b", "a"], []),  # told apart by 0.8 %
        (["b", "c"], [("b", "c")]),
        (["a", "b", "c", "c"], [("a", "c"), ("b", "c")]),
        (["c", "stranger", None], []),
    ],
)
def test_flips(winners: list[str | None], pairs: list[tuple[str, str]]) -> None:
    assert flips(standings(a=0.0, b=0.008, c=0.02), winners) == pairs


def test_tally_names_the_most_frequent_first() -> None:
    assert tally(["a", "b", "b", None]) == "b 2, a 1, nobody 1"
