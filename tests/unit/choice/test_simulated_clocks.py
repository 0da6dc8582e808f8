"""No wrong order, whatever the clock does: what a trial promises, tried many times over."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from xpu.choice.trial import Outcome, Trial
from xpu.model import ShapeCandidate

Clock = Callable[[int], float]


def run(probe: Any, preferred: int | None = None) -> Outcome:
    candidates = [ShapeCandidate(name) for name in probe.times]
    return Trial(candidates, probe, preferred=preferred, budget_s=math.inf).run()


def winner(outcome: Outcome) -> int:
    assert outcome.decision is not None
    return outcome.decision.winner


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((100.0, 100.1), 0),
        ((100.1, 100.0), 0),
        ((100.1, 100.2, 100.0), 0),
        ((100.0, 105.0), 0),
        ((105.0, 100.0), 1),
        ((105.0, 100.0, 110.25), 1),
        ((110.25, 105.0, 100.0), 2),
    ],
)
def test_one_percent_of_noise_in_a_hundred_seeded_runs(
    fake_probe: Any, named: Any, times: tuple[float, ...], expected: int
) -> None:
    for seed in range(100):
        assert winner(run(fake_probe(named(times), noise=0.01, seed=seed))) == expected


@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize(
    ("times", "expected"),
    [((100.0, 97.0, 99.0), 1), ((97.0, 99.0, 100.0), 0), ((99.0, 100.0, 97.0), 2)],
)
def test_a_clock_that_jumps_at_any_reading_changes_no_winner(
    fake_probe: Any, named: Any, times: tuple[float, ...], expected: int, factor: float
) -> None:
    def from_there_on(jump: int) -> Clock:
        return lambda index: factor if index >= jump else 1.0

    def there_alone(jump: int) -> Clock:
        return lambda index: factor if index == jump else 1.0

    for kind in (from_there_on, there_alone):
        jump = read = 0
        while jump <= read:  # one past the last reading changes nothing any more
            probe = fake_probe(named(times), clock=kind(jump))
            assert winner(run(probe)) == expected, (kind, jump)
            jump, read = jump + 1, len(probe.log)
        assert read >= 3 * 14


@pytest.mark.parametrize("rate", [1e-5, 1e-4, 1e-3, 4e-3, 2e-2, 0.1, 0.5])
@pytest.mark.parametrize("direction", [1, -1])
def test_equal_arms_under_a_steady_drift_give_the_first_declared(
    fake_probe: Any, named: Any, rate: float, direction: int
) -> None:
    def geometric(index: int) -> float:
        return (1 + rate) ** (direction * index)

    def linear(index: int) -> float:
        return 1 + rate * index if direction > 0 else 1 / (1 + rate * index)

    for clock in (geometric, linear):
        outcome = run(fake_probe(named((100.0,) * 8), clock=clock))
        assert winner(outcome) == 0
        assert {member.status for member in outcome.members} == {"survivor"}
        assert winner(run(fake_probe(named((100.0,) * 8), clock=clock), preferred=5)) == 5


@pytest.mark.parametrize("arms", range(2, 10))
def test_drift_orders_no_number_of_equal_arms(fake_probe: Any, named: Any, arms: int) -> None:
    for rate in (-0.02, -0.004, 0.004, 0.02):
        probe = fake_probe(
            named((100.0,) * arms), clock=lambda index, rate=rate: math.exp(rate * index)
        )
        assert winner(run(probe)) == 0


def test_two_thousand_noisy_trials_without_a_wrong_order(fake_probe: Any, named: Any) -> None:
    """An earlier arm loses only to one that is truly faster; a clearly faster one wins."""
    rng = random.Random(20261129)
    for seed in range(2000):
        best = rng.uniform(1e3, 1e6)
        times = [best * rng.choice((1.0, 1.001, 1.002, 1.02, 1.06, 1.3)) for _ in range(3)]
        jump, factor = rng.randrange(60), rng.choice((0.5, 1.0, 1.0, 2.0))
        probe = fake_probe(
            named(tuple(times)),
            noise=0.01,
            seed=seed,
            clock=lambda index, jump=jump, factor=factor: factor if index >= jump else 1.0,
        )
        won = winner(run(probe))
        assert all(earlier > times[won] for earlier in times[:won]), (seed, times, won)
        assert times[won] < 1.05 * min(times), (seed, times, won)
