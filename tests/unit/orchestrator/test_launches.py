"""Launches kept to be moved: whose memory is shared by which of them, and whose is not."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
from recording_device import Recorder, array

from xpu.choice import Arm, Packer, Staging
from xpu.orchestrator.launches import Launches
from xpu.spec import Launch

STAGING = Staging(Path("stage"), "stage", Launch(), (2, 3), 1, 64)
STAGED = Arm(Path("code"), "run", "hash", Launch(), (2, 5, 3), (STAGING,))


@pytest.fixture
def device():
    return Recorder(moves=True)


@pytest.fixture
def launches(device):
    return Launches(device, Packer(device, STAGED), lambda found: [array(each) for each in found])


def staged(device):
    """Return the memory of each launch made, having checked that its two halves agree."""
    before, after = device.launched[::2], device.launched[1::2]
    assert [name for name, _, _ in before] == ["stage"] * len(before)
    assert [taken[1] for _, taken, _ in before] == [taken[1] for _, taken, _ in after]
    return [taken[1] for _, taken, _ in after]


def test_memory_does_not_grow_with_the_arrays(device, launches):
    for turn in range(100):
        launches.making()([turn, 1000 + turn, 2000 + turn], None)
    assert staged(device) == [4096] * 100
    assert [taken for _, taken, _ in device.launched[1::2]] == [
        (turn, 4096, 2000 + turn) for turn in range(100)
    ]
    assert [taken[0] for _, taken, _ in device.launched[::2]] == list(range(1000, 1100))
    assert device.packed == 2


def test_streams_share_no_memory_and_their_number_is_bounded(device, launches):
    streams = [object() for _ in range(10)]
    for _ in range(3):
        for stream in streams:
            launches.making()([1, 2, 3], stream)
    assert staged(device) == [4096 * (at + 1) for at in range(10)] * 3
    for _ in range(1000):
        launches.making()([1, 2, 3], object())
    gc.collect()
    assert sum(device.alive()) <= 64


def test_threads_share_no_memory_and_leave_none_behind(device, launches):
    # The default stream of each thread has the same number in all of them.
    launches.making()([1, 2, 3], 2)
    barrier = threading.Barrier(4)

    def work():
        for _ in range(50):
            launches.making()([1, 2, 3], 2)
        barrier.wait(10)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(device.allocated) == 5
    gc.collect()
    assert device.alive() == [True, False, False, False, False]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_recorded_has_memory_of_its_own_for_as_long_as_the_device(is_first, launches):
    device = launches._device
    if not is_first:
        launches.making()([1, 2, 3], 7)
    device.is_recording = True
    launches.making()([4, 5, 6], 7)
    launches.making()([4, 5, 6], 7)
    device.is_recording = False
    launches.making()([7, 8, 9], 7)
    launches.making()([7, 8, 9], 7)
    used = staged(device)
    recorded, eager = used[-4:-2], used[-2:]
    assert len({*recorded, *eager}) == 3
    assert eager[0] == eager[1]
    assert is_first or eager[0] == used[0]
    gc.collect()
    assert sum(device.alive()) == 3
    assert [taken[0] for _, taken, _ in device.launched[1::2]][-4:] == [4, 4, 7, 7]


def test_a_stream_that_cannot_be_recorded_is_not_asked(device, launches):
    for _ in range(3):
        launches.making()([1, 2, 3], "never recorded")
    packed = len(device.asked)
    launches.making()([1, 2, 3], "never recorded")
    assert len(device.asked) == packed
    launches.making()([1, 2, 3], 7)
    launches.making()([1, 2, 3], 7)
    assert device.asked[-1] == 7


def test_a_launch_that_is_being_made_is_not_made_by_another(device, launches):
    launches.making()([1, 2, 3], None)

    def meanwhile():
        device.meanwhile = None
        launches.making()([4, 5, 6], None)

    device.meanwhile = meanwhile
    launches.making()([7, 8, 9], None)
    assert [(name, taken[0]) for name, taken, _ in device.launched[2:]] == [
        *(("stage", 8), ("stage", 5), ("run", 4), ("run", 7))
    ]
    memory = {taken[0]: taken[1] for name, taken, _ in device.launched if name == "run"}
    assert memory == {1: 4096, 7: 4096, 4: 8192}


def test_what_is_kept_has_the_memory_of_its_thread(device, launches):
    launches.making()([1, 2, 3], None)
    kept = [launches.kept([at, at + 1, at + 2], None) for at in (10, 20)]
    packed = device.packed
    for launch in (*kept, *kept):
        launch()
    launches.making()([30, 31, 32], None)
    assert staged(device) == [4096] * 6
    assert [taken[0] for _, taken, _ in device.launched[1::2]] == [1, 10, 20, 10, 20, 30]
    assert device.packed == packed
    thread = threading.Thread(target=kept[0])
    thread.start()
    thread.join()
    assert staged(device)[-1] == 8192
    assert device.launched[-1][1][0] == 10


def test_what_is_kept_is_recorded_with_memory_of_its_own(device, launches):
    launches.making()([1, 2, 3], 7)
    launch = launches.kept([4, 5, 6], 7)
    launch()
    device.is_recording = True
    launch()
    first = launches.kept([4, 5, 6], 7)  # of a set that comes again for the first time
    first()
    device.is_recording = False
    launch()
    first()
    eager, kept, recorded, of_first, again, later = staged(device)
    assert eager == kept == again == later
    assert len({eager, recorded, of_first}) == 3
    assert [taken[0] for _, taken, _ in device.launched[1::2]] == [1, 4, 4, 4, 4, 4]


def test_without_memory_what_is_kept_serves_all_threads(device):
    plain = Launches(
        device,
        Packer(device, Arm(Path("code"), "run", "hash", Launch(), (2,))),
        lambda found: [array(each) for each in found],
    )
    launch = plain.kept([1, 2, 3], None)
    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    launch()
    assert device.launched == [("run", (1, 2, 3), (2,))] * 2
    assert device.packed == 1
    assert device.asked == []


def test_a_library_keeps_its_memory_for_one_launch_at_a_time(device):
    library = Arm(None, "product", "hash", Launch(), (2, 5, 3))
    launches = Launches(device, Packer(device, library), lambda found: [*map(array, found)])
    launches.making()([1, 2, 3], None)
    for launch in [launches.kept([at, 2, 3], None) for at in range(10)]:
        launch()
    assert len(device.allocated) == 1
    assert [taken[0] for _, taken, _ in device.launched] == [1, *range(10)]
