from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from xpu.measure import KernelTimer, Turn
from xpu.spec import TimerTier


class Recorder(TimerTier):
    """Each launch says its copy and how long it takes."""

    name = "fake"

    def __init__(self) -> None:
        self.order: list[int] = []

    def bracket_ns(self, launches: Sequence[Callable[[], float]]) -> float:  # type: ignore[override]
        return sum(launch() for launch in launches)


def test_arms_that_share_copies_read_others_before_any_comes_back() -> None:
    rng = random.Random()
    for _ in range(20):
        tier, turn = Recorder(), Turn()
        timer = KernelTimer(tier)
        around = rng.randint(2, 60)

        def launch(copy: int, ns: float, order: list[int] = tier.order) -> Callable[[], float]:
            def call() -> float:
                order.append(copy)
                return ns

            return call

        # Arms of different pace make brackets of different lengths.
        arms = [[launch(copy, ns) for copy in range(around)] for ns in (900.0, 30_000.0, 400_000.0)]
        for arm in arms:
            timer.warm_up(arm, turn=turn)  # type: ignore[arg-type]
        for _ in range(10):
            for arm in rng.sample(arms, len(arms)):
                timer.time_ns(arm, turn=turn)  # type: ignore[arg-type]
        last: dict[int, int] = {}
        for place, copy in enumerate(tier.order):
            assert place - last.get(copy, -around) >= around // 4
            last[copy] = place
        assert len(last) == around
