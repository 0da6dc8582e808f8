"""Launches packed for trials and bound kernels: staging, its memory, and what is refused."""

from __future__ import annotations

import gc
from pathlib import Path

import attrs
import pytest
from recording_device import Recorder, array

from xpu.choice import Arm, Packer, Staging, on
from xpu.errors import XpuLaunchException
from xpu.spec import Launch

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
    assert device.alive() == [True, False]
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


def test_a_staged_launch_moves_with_the_devices_and_keeps_its_memory() -> None:
    device = Recorder(moves=True)
    launch = Packer(device, CALLED)([array(64), array(128), array(36)], stream=5)
    for addresses in ([1000, 2000, 3000], [4000, 5000, 6000]):
        on(launch)(addresses)
        assert device.launched == [
            ("other", (addresses[0], 4096), (4,)),
            ("stage", (addresses[1], 8192), (2, 3)),
            ("routine gemm", (4096, 8192, addresses[2]), (2, 5, 3)),
        ]
        device.launched.clear()
    assert launch.is_recordable
    assert device.alive() == [True] * 3
    assert on(Packer(Recorder(), STAGED)([array(64), array(128), array(36)])) is None


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("places", [(), (0,), (1,), (1, 0), (1, 1), (0, 1, 0)])
def test_each_kernel_is_made_on_the_addresses_given_or_staged(places, count) -> None:
    staging = tuple(attrs.evolve(STAGING, entry=f"{at}", place=p) for at, p in enumerate(places))
    device = Recorder(moves=True)
    arrays = [array(64 * (1 + at)) for at in range(count)]
    launch = Packer(device, attrs.evolve(STAGED, staging=staging))(arrays)
    for turn in (1, 2):
        now = [1000 * turn + at for at in range(count)]
        expected = []
        on(launch)(tuple(now))
        for at, place in enumerate(places):
            expected.append((f"{at}", (now[place], 4096 * (1 + at)), (2, 3)))
            now[place] = 4096 * (1 + at)
        assert device.launched == [*expected, ("run", tuple(now), (2, 5, 3))]
        device.launched.clear()


@pytest.mark.parametrize("fixed", ["other", "stage", "routine gemm"])
def test_a_staged_launch_of_which_one_cannot_be_moved_cannot_either(fixed) -> None:
    device = Recorder(moves=True)
    pack = device.launcher

    def launcher(kernel, *rest):
        launch = pack(kernel, *rest)
        if kernel == fixed:
            del launch.addresses
        return launch

    device.launcher = launcher
    launch = Packer(device, CALLED)([array(64), array(128), array(36)])
    assert on(launch) is None
    launch()


def test_what_comes_with_memory_and_what_must_be_aligned_is_told() -> None:
    arms = (STAGED, PLAIN, attrs.evolve(CALLED, staging=()))
    assert [Packer(Recorder(), arm).has_memory for arm in arms] == [True, False, True]
    assert Packer(Recorder(), STAGED).alignments_bytes(3) == [1, 16, 1]
    assert Packer(Recorder(), PLAIN).alignments_bytes(3) == [16, 16, 16]


WIDE = attrs.evolve(STAGED, launch=Launch(alignment_bytes=16))


@pytest.mark.parametrize(("arm", "place"), [(STAGED, 1), (PLAIN, 0), (WIDE, 0), (WIDE, 1)])
def test_an_array_that_wide_loads_cannot_read_is_refused(arm: Arm, place: int) -> None:
    device = Recorder()
    arrays = [array(64), array(128), array(256)]
    arrays[place] = array(132)
    with pytest.raises(XpuLaunchException, match=r"0x84, which is no multiple of 16 bytes"):
        Packer(device, arm)(arrays)
    assert device.launched == []
