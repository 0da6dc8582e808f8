from __future__ import annotations

import gc
import math
import random
import time
import weakref
from collections.abc import Callable, Sequence

import pytest

from xpu.errors import XpuConfigError, XpuError
from xpu.measure import ClockScaleError, HostClock, KernelTimer, check_scale, rotation_count
from xpu.spec import TimerTier


class Launch:
    """A launch of known length."""

    def __init__(self, ns: float) -> None:
        self.ns = ns

    def __call__(self) -> None:
        return


class FakeTier(TimerTier):
    """Adds up what launches say they take; `spoil` makes another reading of that."""

    name = "fake"

    def __init__(self, spoil: Callable[[float], float] = lambda total: total) -> None:
        self.brackets: list[list[Launch]] = []
        self.spoil = spoil

    def bracket_ns(self, launches: Sequence[Callable[[], None]]) -> float:
        taken = [launch for launch in launches if isinstance(launch, Launch)]
        self.brackets.append(taken)
        return self.spoil(sum(launch.ns for launch in taken))


def counts(tier: FakeTier) -> list[int]:
    return [len(bracket) for bracket in tier.brackets]


@pytest.mark.parametrize(
    ("ns", "launches"),
    [
        (1.0, 20),
        (24_999.0, 20),
        (25_000.0, 20),
        (26_000.0, 19),
        (100_000.0, 5),
        (400_000.0, 1),
        (9e9, 1),
    ],
)
def test_a_bracket_is_twenty_launches_or_half_a_millisecond(ns: float, launches: int) -> None:
    tier, launch = FakeTier(), Launch(ns)
    timer = KernelTimer(tier)
    assert timer.time_ns(launch) == pytest.approx(ns)
    assert counts(tier) == [1, launches]  # never seen before: one tells how many
    assert timer.time_ns(launch) == pytest.approx(ns)
    assert timer.time_ns([launch]) == pytest.approx(ns)
    assert counts(tier) == [1, launches, launches, launches]


def test_own_limits_and_an_estimate_that_is_given() -> None:
    tier = FakeTier()
    timer = KernelTimer(tier, launches=7, bracket_budget_ns=1000)
    timer.time_ns(Launch(100), estimate_ns=250)
    timer.time_ns(Launch(100), estimate_ns=1)
    assert counts(tier) == [4, 7]


def test_a_warm_up_leaves_the_estimate() -> None:
    tier, launch = FakeTier(), Launch(100_000)
    timer = KernelTimer(tier)
    timer.warm_up(launch)
    tier.brackets.clear()
    timer.time_ns(launch)
    assert counts(tier) == [5]


def test_the_estimate_follows_the_readings_and_passes_over_bad_ones() -> None:
    tier, launch = FakeTier(), Launch(100_000)
    timer = KernelTimer(tier)
    timer.time_ns(launch)
    launch.ns = 50_000
    timer.time_ns(launch)
    tier.spoil = lambda _total: math.nan
    assert math.isnan(timer.time_ns(launch))
    tier.brackets.clear()
    timer.time_ns(launch)
    assert counts(tier) == [10]


@pytest.mark.parametrize("reading", [0.0, -5.0, math.nan, math.inf])
def test_a_reading_that_is_no_time_is_not_a_number(reading: float) -> None:
    timer = KernelTimer(FakeTier(lambda _total: reading))
    launch = Launch(10)
    assert math.isnan(timer.time_ns(launch))
    assert math.isnan(timer.time_ns(launch))


def test_copies_come_round_in_turn_across_brackets() -> None:
    rng = random.Random()
    for _ in range(20):
        pace = rng.choice((1_000, 90_000, 600_000))
        copies = [Launch(pace) for _ in range(rng.randint(2, 50))]
        others = [Launch(5.0) for _ in range(3)]
        tier = FakeTier()
        timer = KernelTimer(tier)
        timer.time_ns(list(copies))
        tier.brackets.clear()
        for _ in range(10):
            timer.time_ns(list(copies))
            timer.time_ns(others)
        order = [
            copies.index(each) for bracket in tier.brackets for each in bracket if each in copies
        ]
        assert order == [(order[0] + place) % len(copies) for place in range(len(order))]


def test_brackets_of_steady_launches_recur() -> None:
    """What a clock has recorded it can replay."""
    rng = random.Random()
    for _ in range(20):
        around, pace = rng.randint(1, 300), rng.choice((1_000, 26_000, 90_000, 600_000))
        copies = [Launch(pace) for _ in range(around)]
        tier = FakeTier()
        timer = KernelTimer(tier)
        timer.warm_up(copies)
        tier.brackets.clear()
        for _ in range(100):
            for launch in copies:
                launch.ns = pace * rng.uniform(0.9, 1.1)
            timer.time_ns(copies)
        shortest = min(map(len, tier.brackets))
        assert shortest >= min(20, max(1, 500_000 / pace)) / 2 - 1
        assert len({tuple(map(id, each)) for each in tier.brackets}) <= -(-around // shortest)


def test_all_copies_are_one_bracket_where_there_is_time() -> None:
    for copies, pace, length in ((26, 17_000, 26), (26, 24_000, 13), (64, 7_000, 64), (80, 10, 20)):
        launches = [Launch(pace) for _ in range(copies)]
        tier = FakeTier()
        timer = KernelTimer(tier)
        timer.warm_up(launches)
        timer.time_ns(launches)
        assert len(tier.brackets[-1]) == length


def test_a_warm_up_of_many_copies_is_one_launch_and_one_bracket() -> None:
    copies = [Launch(5.0) for _ in range(3300)]
    tier = FakeTier()
    KernelTimer(tier).warm_up(copies)
    assert tier.brackets == [copies[:1], copies[20:40]]


def test_a_warm_up_of_a_launch_that_fills_a_bracket_is_that_launch() -> None:
    launch = Launch(600_000.0)
    tier = FakeTier()
    KernelTimer(tier).warm_up(launch)
    assert tier.brackets == [[launch]]


def test_a_timer_keeps_no_launch_alive() -> None:
    timer = KernelTimer(FakeTier())
    launch = Launch(10.0)
    timer.time_ns([launch, Launch(10.0)])
    seen = weakref.ref(launch)
    tier = timer.tier
    assert isinstance(tier, FakeTier)
    tier.brackets.clear()
    del launch
    gc.collect()
    assert seen() is None


def test_launches_that_nothing_can_be_kept_for_are_timed_all_the_same() -> None:
    class Bare:
        __slots__ = ()
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> None:
            time.sleep(0)

    assert KernelTimer().time_ns(Bare()) > 0
    assert KernelTimer().time_ns([1].clear) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: KernelTimer(launches=0),
        lambda: KernelTimer(bracket_budget_ns=0),
        lambda: KernelTimer(bracket_budget_ns=math.nan),
        lambda: KernelTimer().time_ns([]),
        lambda: KernelTimer().warm_up(()),
    ],
)
def test_what_makes_no_bracket_is_said(make: Callable[[], object]) -> None:
    with pytest.raises(XpuConfigError, match="given: "):
        make()


def test_without_a_tier_the_host_clock_serves() -> None:
    timer = KernelTimer()
    assert isinstance(timer.tier, HostClock)

    def launch() -> None:
        time.sleep(0.001)

    assert 1e6 <= timer.time_ns(launch) < 1e8


def test_the_host_clock_takes_its_own_cost_off() -> None:
    clock = HostClock()
    overhead = clock.describe()["overhead_ns"]
    assert 0 <= overhead < 1e6
    # What is left of an empty bracket is a delay by chance, or no time at all.
    left = min((clock.bracket_ns(()) for _ in range(200)), key=lambda ns: (not math.isnan(ns), ns))
    assert math.isnan(left) or left < overhead + 100


@pytest.mark.parametrize(
    ("cache", "touched", "factor", "count"),
    [
        (50 << 20, 50 << 20, 4, 4),
        (50 << 20, (50 << 20) + 1, 4, 4),
        (50 << 20, (50 << 20) - 1, 4, 5),
        (1000, 4000, 4, 1),
        (1000, 3999, 4, 2),
        (1000, 1, 4, 4000),
        (1000, 100, 1.5, 15),
        (1000, 0, 4, 1),
        (None, 1 << 30, 4, 1),
        (None, 1 << 20, 4, 1024),
    ],
)
def test_rotation_count(cache: int | None, touched: int, factor: float, count: int) -> None:
    assert rotation_count(cache, touched, factor=factor) == count


def test_copies_fill_four_caches_and_no_copy_is_needless() -> None:
    rng = random.Random()
    for _ in range(200):
        cache, touched = rng.randint(1, 1 << 30), rng.randint(1, 1 << 30)
        count = rotation_count(cache, touched)
        assert count * touched >= 4 * cache
        assert count == 1 or (count - 1) * touched < 4 * cache


@pytest.mark.parametrize("scale", [0.5, 0.954, 1.0, 1.046, 2.0])
def test_a_scale_near_one_is_used(scale: float) -> None:
    assert check_scale(scale) == scale


@pytest.mark.parametrize("scale", [0.4999, 2.0001, 0.0, -1.0, math.nan, math.inf])
def test_a_scale_outside_a_factor_of_two_is_refused(scale: float) -> None:
    with pytest.raises(ClockScaleError, match=r"event clock.*0\.5 to 2"):
        check_scale(scale)
    assert issubclass(ClockScaleError, XpuError)


@pytest.mark.parametrize(
    ("ns", "settling"), [(5_000.0, 200), (300_000.0, 4), (999_999.0, 2), (1_000_000.0, 0)]
)
def test_launches_run_untimed_until_the_clock_has_settled(ns: float, settling: int) -> None:
    tier, launch = FakeTier(), Launch(ns)
    tier.settle_ns = 1_000_000.0
    timer = KernelTimer(tier)
    assert timer.time_ns(launch, estimate_ns=ns) == ns
    bracket = min(20, max(1, int(500_000 / ns)))
    assert counts(tier) == ([settling, bracket] if settling else [bracket])


def test_a_clock_is_settled_for_as_long_as_it_asks_whatever_the_copies() -> None:
    for count in (1, 20, 499, 501, 1000):
        tier = FakeTier()
        tier.settle_ns = 1_000_000
        copies = [Launch(2_000.0) for _ in range(count)]
        KernelTimer(tier).time_ns(copies, estimate_ns=2_000.0)
        settled, read = map(len, tier.brackets)
        assert settled == 500
        assert 18 <= read <= 20


def test_who_states_a_number_of_launches_gets_no_more() -> None:
    for most, count in ((1, 3), (2, 60), (19, 26)):
        tier = FakeTier()
        KernelTimer(tier, launches=most).time_ns([Launch(1.0)] * count, estimate_ns=2_000.0)
        assert all(len(bracket) <= most for bracket in tier.brackets)
