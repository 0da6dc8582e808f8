"""Launches packed for trials and bound kernels: staging, its memory, and what is refused."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import attrs
import numpy as np
import pytest

from xpu.choice import Arm, Packer, Staging
from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, Launch


class Owner:
    """Memory that can be seen to go."""


class Recorder:
    """A device that notes what is launched on which addresses."""

    def __init__(self) -> None:
        self.launched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        self.allocated: list[weakref.ref[Owner]] = []
        self.is_recording = False

    def load(self, code: Path, entry: str) -> str:
        return entry

    def routine(self, name: str) -> str:
        return f"routine {name}"

    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        owner = Owner()
        self.allocated.append(weakref.ref(owner))
        return DeviceArray(4096 * len(self.allocated), (nbytes,), "uint8", owner)

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        addresses = tuple(buffer.address for buffer in buffers)

        def call() -> None:
            self.launched.append((kernel, addresses, tuple(sizes)))

        call.stream = stream
        if kernel.startswith("routine"):
            call.memory = (self.allocate(8),)
        return call

    def is_capturing(self, stream=None) -> bool:
        return self.is_recording


def array(address: int) -> DeviceArray:
    return DeviceArray(address, (4,), "float32", np.zeros(4))


STAGING = Staging(Path("stage"), "stage", Launch(alignment_bytes=16), (2, 3), 1, 64)
STAGED = Arm(Path("code"), "run", "hash", Launch(alignment_bytes=1), (2, 5, 3), (STAGING,))
OTHER = Staging(Path("other"), "other", Launch(), (4,), 0, 32)
CALLED = Arm(None, "gemm", "hash", Launch(), (2, 5, 3), (OTHER, STAGING))
PLAIN = Arm(Path("code"), "run", "hash", Launch(alignment_bytes=16), (7,))


def test_what_is_staged_takes_the_place_of_its_argument() -> None:
    device = Recorder()
    launch = Packer(device, STAGED)([array(64), array(128), array(36)], stream=5)
    launch()
    launch()
    assert (
        device.launched == [("stage", (128, 4096), (2, 3)), ("run", (64, 4096, 36), (2, 5, 3))] * 2
    )
    assert launch.stream == 5


def test_several_arguments_are_staged_in_order_before_a_library_is_called() -> None:
    device = Recorder()
    launch = Packer(device, CALLED)([array(64), array(128), array(36)], stream=5)
    launch()
    assert device.launched == [
        ("other", (64, 4096), (4,)),
        ("stage", (128, 8192), (2, 3)),
        ("routine gemm", (4096, 8192, 36), (2, 5, 3)),
    ]
    assert launch.stream == 5


@pytest.mark.parametrize("staging", [(), (OTHER, STAGING)])
def test_the_memory_that_a_library_works_in_stays_with_a_recording(staging) -> None:
    device = Recorder()
    device.is_recording = True
    Packer(device, attrs.evolve(CALLED, staging=staging))([array(64), array(128), array(256)])
    gc.collect()
    assert len(device.allocated) == len(staging) + 1
    assert all(memory() is not None for memory in device.allocated)


def test_launches_packed_apart_share_no_memory_and_give_it_back() -> None:
    device = Recorder()
    pack = Packer(device, STAGED)
    kept, gone = (pack([array(64), array(128), array(256)]) for _ in range(2))
    assert len(device.allocated) == 2
    del gone
    gc.collect()
    assert [ref() is None for ref in device.allocated] == [False, True]
    kept()


def test_memory_that_was_recorded_stays_for_as_long_as_the_device() -> None:
    device = Recorder()
    device.is_recording = True
    Packer(device, STAGED)([array(64), array(128), array(256)])
    gc.collect()
    (memory,) = device.allocated
    assert memory() is not None
    del device
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize(("arm", "place"), [(STAGED, 1), (PLAIN, 0)])
def test_an_array_that_wide_loads_cannot_read_is_refused(arm: Arm, place: int) -> None:
    device = Recorder()
    arrays = [array(64), array(128), array(256)]
    arrays[place] = array(132)
    with pytest.raises(XpuLaunchException, match=r"0x84, which is no multiple of 16 bytes"):
        Packer(device, arm)(arrays)
    assert device.launched == []
