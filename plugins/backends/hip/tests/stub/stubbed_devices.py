"""Two devices in one process, of a kind with waves of 64 lanes; run with a machine of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gpu_arrays import GpuArray
from hip_stub import ADD, StubbedHip

from xpu.errors import XpuLaunchException
from xpu.spec import Launch
from xpu_backend_hip.device import HipDevice

ONE = Launch((1, 1, 1), (32, 1, 1), clears_result=True)


@pytest.fixture
def both() -> Iterator[list[Any]]:
    devices = [HipDevice(0), HipDevice(1)]
    yield devices
    for device in devices:
        device.close()


def test_each_has_its_number_and_its_facts(both) -> None:
    backend = StubbedHip()
    facts = backend.devices()
    assert [one.uuid for one in facts] == ["GPU-000000000000abc0", "GPU-000000000000abc1"]
    assert {one.architecture for one in facts} == {"gfx90a"}
    assert {one.shared_bytes_per_multiprocessor for one in facts} == {65536}
    assert {one.registers_per_multiprocessor for one in facts} == {131072}
    assert {one.wave_width for one in facts} == {64}
    assert backend.compiler().native_target() == "gfx90a:sramecc+:xnack-"
    assert list(backend.code_targets(1))[::3] == ["gfx90a:sramecc+:xnack-", "gfx90a"]
    with pytest.raises(XpuLaunchException, match="has 2 devices, numbers from 0; asked for 2"):
        backend.open(2)


@pytest.mark.parametrize("is_own", [False, True], ids=["default stream", "stream"])
def test_a_launch_goes_to_its_device_whatever_is_current(stub, both, built, is_own) -> None:
    for device in both:
        arrays = [device.from_host(np.full(32, value, np.float32)) for value in (5, 1)]
        stream = device.timer().stream if is_own else None
        kernel = device.load(built(ADD), "kernel_under_test")
        launch = device.launcher(kernel, ONE, arrays, (32,), stream)
        seen = []

        def work(launch: Any = launch, seen: list[Any] = seen) -> None:
            launch()
            seen.append(stub.thread)

        thread = threading.Thread(target=work)  # device 0 is current in a fresh thread
        thread.start()
        thread.join()
        device.synchronize()
        assert seen == [(0, 0)], "the thread is left as it was found"
        assert (device.to_host(arrays[1]) == 5).all()
    assert stub.thread == (0, 0)


def test_what_lies_on_the_other_device_is_refused(both, built) -> None:
    first, second = both
    array = first.from_host(np.zeros(32, np.float32))
    for given in (array, GpuArray.of(np.zeros(32, np.float32), first)):
        with pytest.raises(XpuLaunchException, match="another device, number 0; this one is num"):
            second.import_array(given, writable=False)
    kernel = first.load(built(ADD), "kernel_under_test")
    with pytest.raises(XpuLaunchException, match="not loaded on this device"):
        second.launcher(kernel, ONE, [array, array], (32,))


def test_a_device_that_is_lost_leaves_the_other_alone(stub, both) -> None:
    first, second = both
    stub.lose(719, device=1)
    with pytest.raises(XpuLaunchException, match=r"hipErrorLaunchFailure.*end this process"):
        second.synchronize()
    first.synchronize()
    assert np.array_equal(first.to_host(first.from_host(np.arange(3))), np.arange(3))
    stub.lose(0, device=1)
