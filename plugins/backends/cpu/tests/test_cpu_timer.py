from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from xpu_backend_cpu import timer as timer_module
from xpu_backend_cpu.timer import HostTimer

STEP_NS = 25
CALL_NS = 70
JITTER = (0, 0, 0, 0, 0, 0, 0, 0, 0, 300)  # a tenth of all looks at the clock come late


class FakeClock:
    """A clock that only looks at it and launches move on."""

    def __init__(self, jitter: tuple[int, ...] = (0,)) -> None:
        self.now_ns = 0
        self._jitter = jitter
        self._looks = 0

    def look(self) -> int:
        self.now_ns += STEP_NS + self._jitter[self._looks % len(self._jitter)]
        self._looks += 1
        return self.now_ns

    def launch(self, work_ns: int) -> Callable[[], None]:
        def run() -> None:
            self.now_ns += CALL_NS + work_ns

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    monkeypatch.setattr(timer_module, "perf_counter_ns", made.look)
    return made


def test_a_bracket_of_nothing_cannot_be_believed(clock):
    timer = HostTimer(clock.launch(0))
    assert timer.name == "host"
    assert math.isnan(timer.bracket_ns([]))
    assert math.isnan(timer.bracket_ns([clock.launch(0)] * 20))


def test_a_bracket_is_the_work_of_its_launches(clock):
    timer = HostTimer(clock.launch(0))
    assert timer.describe() == {
        "empty_bracket_ns": STEP_NS,
        "call_ns": CALL_NS,
        "resolution_ns": 25,
    }
    assert timer.bracket_ns([clock.launch(50_000)]) == 50_000
    assert timer.bracket_ns([clock.launch(50_000)] * 4) == 200_000
    assert timer.bracket_ns([clock.launch(1_000), clock.launch(7)]) == 1_007


def test_what_empty_brackets_differ_by_says_nothing_of_a_launch(monkeypatch):
    clock = FakeClock(JITTER)
    monkeypatch.setattr(timer_module, "perf_counter_ns", clock.look)
    timer = HostTimer(clock.launch(0))
    assert timer.describe()["resolution_ns"] == STEP_NS + 300
    assert math.isnan(timer.bracket_ns([clock.launch(20)]))
    assert timer.bracket_ns([clock.launch(1_000)]) in (1_000, 1_300)


def test_the_machines_own_clock_counts_nanoseconds(open_device):
    timer = open_device(1).timer()
    assert min(timer.describe().values()) >= 0
    # A busy machine makes it longer, never shorter; the tenth is for what is taken off.
    assert timer.bracket_ns([lambda: time.sleep(0.02)]) > 18e6
