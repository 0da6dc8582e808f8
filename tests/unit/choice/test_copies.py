"""Copies that a cold trial goes round, and the launches on them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import attrs
import numpy as np
import pytest
from recording_device import Recorder
from scripted_backend import ScriptedDevice

from xpu.choice import Arm, Packer, Staging
from xpu.choice.copies import BufferSets, Rotation
from xpu.spec import Argument, Launch

ARGUMENTS = (
    Argument("w", "uint8", "read"),
    Argument("x", "float32", "update"),
    Argument("y", "float32", "write"),
)


STAGING = Staging(Path("stage"), "stage", Launch(), (3,), 1, 64)
ARM = Arm(Path("code"), "run", "hash", Launch(), (3,), (STAGING,))


class Copying(ScriptedDevice):
    """Its memory is the host's; it counts copies."""

    copies = 0

    def copy(self, source, destination):
        assert source.nbytes == destination.nbytes
        self.copies += 1
        content(destination)[...] = content(source)


def content(array):
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.address)
    return np.ctypeslib.as_array(memory)


def buffers(device):
    rng = np.random.default_rng()
    given = (
        rng.integers(0, 256, 777, np.uint8),
        rng.standard_normal((3, 43)).astype(np.float32),
        np.zeros(5, np.float32),
    )
    return [device.from_host(each) for each in given]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 64, 100])
def test_every_set_holds_what_was_given_in_memory_of_its_own(count: int) -> None:
    device = Copying()
    given = buffers(device)
    sets = BufferSets(device, ARGUMENTS, given, count)
    assert len(sets) == count
    made = [sets[index] for index in range(count)]
    assert list(made[0]) == given
    for one in made:
        assert [each.shape for each in one] == [each.shape for each in given]
        assert [each.dtype for each in one] == [each.dtype for each in given]
        assert one[2] is given[2]
        for copy, original in zip(one[:2], given[:2], strict=True):
            np.testing.assert_array_equal(content(copy), content(original))
    for place in (0, 1):
        spans = sorted((one[place].address, one[place].nbytes) for one in made)
        starts = [start for start, _ in spans]
        assert len(set(starts)) == count
        # Apart, and none changes when another is written.
        content(made[-1][place])[...] ^= 0xFF
        assert all((content(one[place]) == content(given[place])).all() for one in made[1:-1])


def test_thousands_of_copies_take_a_few_calls() -> None:
    device = Copying()
    BufferSets(device, ARGUMENTS, buffers(device), 8192)
    assert device.copies == 2 * 14


def test_a_launch_is_packed_when_it_is_first_taken() -> None:
    device = Recorder()
    device.copy = lambda *_: None
    given = [device.allocate(64) for _ in range(3)]
    rotation = Rotation(Packer(device, ARM), BufferSets(device, ARGUMENTS, given, 8192), 7)
    assert len(rotation) == 8192
    launches = rotation[3], rotation[8191]
    assert rotation[3] is launches[0]
    assert {launch.stream for launch in launches} == {7}
    for launch in launches:
        launch()
    staged = [taken for name, taken, _ in device.launched if name == "stage"]
    # What is staged lies at the same place, whichever copy it was made of.
    assert staged[0][0] != staged[1][0]
    assert staged[0][1] == staged[1][1]


@pytest.mark.parametrize("staging", [(), (STAGING,)])
def test_memory_that_a_backend_gives_a_launch_is_no_other_launchs(staging) -> None:
    device = Recorder()
    device.copy = lambda *_: None
    pack = device.launcher

    def launcher(kernel, *rest):
        launch = pack(kernel, *rest)
        launch.memory = (device.allocate(8),)
        return launch

    device.launcher = launcher
    given = [device.allocate(64) for _ in range(3)]
    arm = attrs.evolve(ARM, staging=staging)
    rotation = Rotation(Packer(device, arm), BufferSets(device, ARGUMENTS, given, 8), None)
    for launch in rotation:
        launch()
    assert [name for name, _, _ in device.launched].count("run") == 8


def test_there_are_no_copies_past_the_last() -> None:
    device = Recorder()
    device.copy = lambda *_: None
    sets = BufferSets(device, ARGUMENTS, [device.allocate(64) for _ in range(3)], 8)
    rotation = Rotation(Packer(device, ARM), sets, None)
    for each in (sets, rotation):
        for index in (8, -9):
            with pytest.raises(IndexError):
                each[index]
    assert rotation[-1] is rotation[7]
    assert rotation[2::3] == [rotation[2], rotation[5]]
    assert sets[-1] == sets[7]
