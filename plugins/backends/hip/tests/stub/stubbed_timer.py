"""The event clock over the stub: calibration, the two ways, and that nothing holds for ever."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Launch
from xpu_backend_hip.stall import Stall
from xpu_backend_hip.timer import EventTimer

ONE = Launch((1, 1, 1), (32, 1, 1))


@pytest.fixture
def launch(opened, add) -> Any:
    arrays = [opened.from_host(np.zeros(32, np.float32)) for _ in range(2)]

    def pack(stream: Any) -> Any:
        made = opened.launcher(add, ONE, arrays, (32,), stream)
        made.arrays = arrays
        return made

    return pack


def believed(timer: EventTimer, launches: Any) -> float:
    """Return a reading; on a busy host some brackets are late."""
    return next((ns for _ in range(20) if (ns := timer.bracket_ns(launches)) > 0), 0.0)


def test_a_bracket_is_replayed_behind_a_hold(stub, opened, launch) -> None:
    timer = opened.timer()
    assert opened.timer() is timer
    one = launch(timer.stream)
    assert believed(timer, [one] * 5) > 0
    told = timer.describe()
    assert (told["way"], told["not_captured"]) == ("replay", 0)
    assert told["host_per_event"] == pytest.approx(1.0, rel=0.1)
    stub.forget()
    assert believed(timer, [one] * 5) > 0
    names = [
        name for name in stub.names() if name.startswith(("hipLaunch", "hipEvent", "hipGraph"))
    ]
    assert names[-6:] == [
        *("hipLaunchHostFunc", "hipEventRecord", "hipGraphLaunch", "hipEventRecord"),
        *("hipEventSynchronize", "hipEventElapsedTime"),
    ]


def test_launches_that_go_elsewhere_are_queued_behind_a_hold(stub, opened, launch) -> None:
    timer = opened.timer()
    one = launch(None)
    assert believed(timer, [one] * 2) > 0
    stub.forget()
    assert believed(timer, [one] * 2) > 0
    names = [
        name for name in stub.names() if name.startswith(("hipLaunch", "hipEventR", "hipModu"))
    ]
    launches = 2 * ["hipModuleLaunchKernel"]
    assert names[-5:] == ["hipLaunchHostFunc", "hipEventRecord", *launches, "hipEventRecord"]
    with pytest.raises(XpuLaunchException, match="go to 2 streams"):
        timer.bracket_ns([one, launch(timer.stream)])
    assert math.isnan(timer.bracket_ns([]))


def test_what_was_queued_before_is_done_before(opened, launch) -> None:
    timer = opened.timer()
    one = launch(timer.stream)
    a, y = one.arrays
    opened.copy(opened.from_host(np.ones(32, np.float32)), a)
    start = opened.from_host(np.full(32, 7, np.float32))
    opened.copy(start, y)  # on the legacy stream, which the tier's does not wait for
    timer.bracket_ns([one])
    opened.context.hip.hipStreamSynchronize(timer.stream)
    assert (opened.to_host(y) == 8).all()


def test_launches_that_go_elsewhere_than_they_say_are_no_graph(opened, launch) -> None:
    timer = opened.timer()
    stray = launch(None)

    def one() -> None:
        stray()

    one.stream = timer.stream
    timer.bracket_ns([one] * 3)
    told = timer.describe()
    assert (told["not_captured"], told["last_cause"]) == (1, "the launches go to another stream")


def test_launches_that_cannot_be_captured_are_queued(stub, opened, launch) -> None:
    timer = opened.timer()
    one = launch(timer.stream)
    stub.fail("hipStreamBeginCapture", 900, times=1000)
    assert believed(timer, [one] * 2) > 0
    told = timer.describe()
    stub.fail("hipStreamBeginCapture", 0, times=0)
    assert told["not_captured"] >= 1
    assert "hipErrorStreamCaptureUnsupported" in told["last_cause"]


@pytest.mark.parametrize("rate", [0.4, 3.0])
def test_a_clock_that_does_not_keep_time_is_refused(stub, opened, launch, rate) -> None:
    stub.event_rate(rate)
    timer = EventTimer(opened.context, opened._sysfs)
    with pytest.raises(XpuLaunchException, match=r"event clock of device 0 runs at .*0\.5 to 2"):
        timer.bracket_ns([launch(timer.stream)])
    timer.close()


def test_a_clock_that_is_a_little_off_is_scaled(stub, opened, launch) -> None:
    stub.event_rate(0.8)
    timer = EventTimer(opened.context, opened._sysfs)
    assert timer.bracket_ns([launch(timer.stream)]) >= 0
    assert timer.describe()["host_per_event"] == pytest.approx(1.25, rel=0.1)
    timer.close()


def test_the_time_between_queues_is_measured(opened) -> None:
    assert opened.queue_ns() >= 0


def test_a_hold_ends_by_itself_and_says_so(opened) -> None:
    hip, stall = opened.context.hip, Stall(opened.context)
    start = time.monotonic()
    stall.hold(0, 30_000_000)
    hip.hipStreamSynchronize(0)  # the mistake: nobody has let it go
    assert 0.02 < time.monotonic() - start < 5
    assert stall.was_late
    stall.release()
    stall.hold(0, 5_000_000_000)
    stall.release()
    hip.hipStreamSynchronize(0)
    assert not stall.was_late
    stall.close()


def test_a_bracket_whose_host_was_too_slow_is_not_believed(opened, launch) -> None:
    timer = EventTimer(opened.context, opened._sysfs, way="queue")
    one = launch(timer.stream)

    def slow() -> None:
        time.sleep(0.05)
        one()

    slow.stream = timer.stream
    assert math.isnan(timer.bracket_ns([slow]))
    told = timer.describe()
    assert told["host_bound"] == 1
    assert "20 ms" in told["last_cause"]
    assert math.isnan(timer.bracket_ns([one] * 300)), "more than a held stream takes"
    timer.close()
    with pytest.raises(XpuLaunchException, match="was closed"):
        timer.bracket_ns([one])


def test_a_graph_that_does_not_queue_behind_a_hold_is_not_tried_again(opened, launch) -> None:
    timer = EventTimer(opened.context, opened._sysfs)
    one = launch(timer.stream)
    assert believed(timer, [one]) > 0
    hip = opened.context.hip
    plain = hip.hipGraphLaunch

    def waits(executable: Any, stream: int) -> Any:
        hip.hipStreamSynchronize(stream)
        return plain(executable, stream)

    hip.hipGraphLaunch = waits
    try:
        for _ in range(3):
            assert timer.describe()["way"] == "replay"
            assert math.isnan(timer.bracket_ns([one]))
        assert timer.describe()["way"] == "queue"
        assert believed(timer, [one]) > 0
    finally:
        hip.hipGraphLaunch = plain
        timer.close()
