from __future__ import annotations

import math
import time

import numpy as np

from xpu.spec import Launch

SPIN = """
XPU_KERNEL {
    volatile int64_t sum = 0;
    if (team->worker == 0)
        for (int64_t i = 0; i < sizes[0]; i++) sum += i;
    ((int64_t *)buffers[0])[team->worker] = sum;
}
"""


def test_a_bracket_of_nothing_cannot_be_believed(open_device):
    timer = open_device(1).timer()
    assert timer.name == "host"
    believed = [reading for _ in range(100) if not math.isnan(reading := timer.bracket_ns([]))]
    assert len(believed) < 30


def test_a_bracket_grows_with_its_work(open_device, build):
    device = open_device(1)
    kernel = device.load(build(SPIN), "kernel_under_test")
    out = device.import_array(np.zeros(1, np.int64), writable=True)

    def least(size: int, launches: int) -> float:
        launch = device.launcher(kernel, Launch(), [out], [size])
        return min(device.timer().bracket_ns([launch] * launches) for _ in range(15))

    one, four, longer = least(50_000, 1), least(50_000, 4), least(200_000, 1)
    assert 2.5 < four / one < 6
    assert 2.5 < longer / one < 6


def test_what_a_call_costs_is_taken_off(open_device):
    timer = open_device(1).timer()
    figures = timer.describe()
    assert 0 < figures["call_ns"] < 5000
    assert 0 < figures["empty_bracket_ns"] < 5000
    slept = timer.bracket_ns([lambda: time.sleep(0.002)])
    assert slept >= 2e6 - 20_000
