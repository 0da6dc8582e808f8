"""Calls with arrays that were never seen, where launches can be moved."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from copy_device import CopyDevice, CopyKernel, Opaque, Torchlike

from xpu.errors import XpuLaunchException
from xpu.spec import Argument

KINDS = pytest.mark.parametrize("dress", [lambda array: array, Torchlike], ids=["numpy", "tensor"])
ENOUGH = 800
"""Calls with one set after which it is remembered wherever in the turns it begins."""


@pytest.fixture
def device():
    return CopyDevice(moves=True)


def plain(value):
    return getattr(value, "array", value)


@KINDS
def test_arrays_like_those_taken_before_are_neither_taken_nor_packed(bound, device, array, dress):
    kernel = bound()
    for _ in range(300):
        x, y = dress(array()), dress(np.full(8, np.nan, np.float32))
        assert kernel(x, out=y) is y
        np.testing.assert_array_equal(plain(y), 2 * plain(x))
    assert device.imported == 2
    assert device.packed <= 3


@KINDS
def test_arrays_that_stay_are_remembered_and_not_moved_to(bound, device, array, dress):
    kernel = bound()
    sets = [(dress(array()), dress(array())) for _ in range(3)]
    for _ in range(ENOUGH):
        for x, y in sets:
            kernel(x, out=y)
    assert len(kernel.calls.plans) == 3
    moved, packed = device.moved, device.packed
    for x, y in sets:
        plain(x)[:] += 1
        kernel(x, out=y)
        np.testing.assert_array_equal(plain(y), 2 * plain(x))
    assert (device.moved, device.packed) == (moved, packed)


def test_dead_arrays_leave_nothing(bound, device, array):
    kernel = bound()
    for _ in range(20):
        x, y = array(), array()
        for _ in range(ENOUGH):
            kernel(x, out=y)
        assert len(kernel.calls.plans) == 1
        dead = weakref.ref(x)
        del x
        assert dead() is None
        assert kernel.calls.plans == kernel.calls.plans.arrays == {}
    assert device.packed <= 1 + 20 + 1  # one that is moved, and one for each set that came again


def test_a_bound_kernel_with_remembered_arrays_goes_with_its_last_reference(bound, array):
    kernel, x, y = bound(), array(), array()
    for _ in range(ENOUGH):
        kernel(x, out=y)
    gone = [weakref.ref(kernel), weakref.ref(kernel.calls), weakref.ref(kernel.calls.plans)]
    gc.disable()
    try:
        del kernel
        assert [each() for each in gone] == [None] * 3
    finally:
        gc.enable()
    del x


def test_memory_exchanged_under_a_tensor_is_noticed(bound, array):
    kernel, x, y = bound(), Torchlike(array()), Torchlike(array())
    for _ in range(ENOUGH):
        kernel(x, out=y)
    for _ in range(ENOUGH):
        x.array = array()
        kernel(x, out=y)
        np.testing.assert_array_equal(y.array, 2 * x.array)
        y.array = array()
        kernel(x, out=y)
        np.testing.assert_array_equal(y.array, 2 * x.array)


def read_only(array):
    array.flags.writeable = False
    return array


def moved_by_a_byte(array):
    return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(np.float32)


BAD_INPUTS = {
    "longer": lambda x: np.append(x, x),
    "a column": lambda x: x[:, None],
    "doubles": lambda x: x.astype(np.float64),
    "whole numbers": lambda x: x.view(np.int32),
    "gaps": lambda x: np.repeat(x, 2)[::2],
}


@KINDS
@pytest.mark.parametrize("bad", BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_what_is_refused_at_first_is_refused_afterwards(bound, device, array, dress, bad):
    kernel, x, y = bound(), array(), array()
    for _ in range(3):
        kernel(dress(array()), out=dress(array()))
    count, y[:] = len(device.streams), np.nan
    with pytest.raises(XpuLaunchException, match="'x'"):
        kernel(dress(bad(x)), out=dress(y))
    with pytest.raises(XpuLaunchException, match="'y'"):
        kernel(dress(x), out=dress(bad(y)))
    assert len(device.streams) == count
    assert np.isnan(y).all()


@pytest.mark.parametrize("how", [{"device": "there"}, {"requires_grad": True}], ids=str)
def test_a_tensor_elsewhere_or_with_a_gradient_is_refused_afterwards(bound, device, array, how):
    kernel = bound()
    for _ in range(3):
        kernel(Torchlike(array()), out=Torchlike(array()))
    with pytest.raises(XpuLaunchException, match="'x'"):
        kernel(Torchlike(array(), **how), out=Torchlike(array()))
    with pytest.raises(XpuLaunchException, match="'y'"):
        kernel(Torchlike(array()), out=Torchlike(array(), **how))


@KINDS
@pytest.mark.parametrize("shift", [0, 1, 7, -1, -7])
def test_a_result_that_overlaps_is_refused_afterwards(bound, dress, shift):
    kernel, whole = bound(), np.zeros(24, np.float32)
    for out in (whole[16:], whole[:8], whole[16:]):
        kernel(dress(whole[8:16]), out=dress(out))
    with pytest.raises(XpuLaunchException, match="'y' is written and overlaps 'x'"):
        kernel(dress(whole[8:16]), out=dress(whole[8 + shift : 16 + shift]))
    for out in (whole[16:], whole[:8]):  # neighbours do not overlap
        kernel(dress(whole[8:16]), out=dress(out))


THREE = (
    Argument("w", "float32", "read"),
    Argument("x", "float32", "read"),
    Argument("y", "float32", "write"),
)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("is_of_one", [False, True], ids=["two inputs", "one"])
def test_memory_exchanged_under_any_tensor_is_noticed(bound, array, place, is_of_one):
    kernel = bound() if is_of_one else bound(arguments=THREE)
    values = [Torchlike(array()) for _ in range(3)]
    first, out = values[is_of_one], values[-1]
    call = [first] if is_of_one else values[:-1]
    for _ in range(ENOUGH):
        kernel(*call, out=out)
    assert len(kernel.calls.plans) == 1
    values[place].array = array()
    out.array[:] = np.nan
    for _ in range(2):
        kernel(*call, out=out)
        np.testing.assert_array_equal(out.array, 2 * first.array)


@KINDS
@pytest.mark.parametrize("shift", [0, 7, -7])
def test_a_result_that_overlaps_either_of_two_inputs_is_refused_afterwards(
    bound, device, array, dress, shift
):
    kernel, whole = bound(arguments=THREE), np.zeros(24, np.float32)
    kept, out = whole[8:16], whole[8 + shift : 16 + shift]
    for y in (whole[16:], whole[:8], whole[16:]):
        other = array()
        kernel(dress(other), dress(kept), out=dress(y))
        np.testing.assert_array_equal(y, 2 * other)
        kernel(dress(kept), dress(array()), out=dress(y))
    assert device.imported == 3
    with pytest.raises(XpuLaunchException, match="'y' is written and overlaps 'w'"):
        kernel(dress(kept), dress(array()), out=dress(out))
    with pytest.raises(XpuLaunchException, match="'y' is written and overlaps 'x'"):
        kernel(dress(array()), dress(kept), out=dress(out))


@pytest.mark.parametrize("bad", ["gaps", "a byte further"])
def test_a_read_only_input_that_cannot_be_read_is_refused_afterwards(bound, device, array, bad):
    kernel = bound()
    for _ in range(3):
        kernel(read_only(array()), out=array())
    made = {"gaps": BAD_INPUTS["gaps"], "a byte further": moved_by_a_byte}[bad](array())
    with pytest.raises(XpuLaunchException, match="'x': it is not"):
        kernel(read_only(made), out=array())


def test_a_read_only_result_is_refused_afterwards_and_a_read_only_input_is_taken(bound, array):
    kernel, y = bound(), array()
    for _ in range(3):
        kernel(array(), out=array())
    with pytest.raises(XpuLaunchException, match="'y': it is read-only"):
        kernel(array(), out=read_only(array()))
    x = read_only(array())
    kernel(x, out=y)
    np.testing.assert_array_equal(y, 2 * x)


def test_an_array_that_the_kernel_cannot_read_is_refused_afterwards(bound, device):
    kernel = bound(alignment_bytes=16)
    whole = np.zeros(64, np.float32)
    start = -whole.ctypes.data % 64 // 4
    good, bad = whole[start : start + 8], whole[start + 1 : start + 9]
    out = whole[start + 16 : start + 24]
    for _ in range(3):
        kernel(good[:], out=out[:])
    count = len(device.streams)
    for dress in (lambda array: array[:], Torchlike):
        with pytest.raises(XpuLaunchException, match=r"array 0 begins at .*multiple of 16 bytes"):
            kernel(dress(bad), out=out[:])
    assert len(device.streams) == count


def test_a_masked_array_is_refused_afterwards(bound, device, array):
    kernel = bound()
    for _ in range(3):
        kernel(array(), out=array())
    count = len(device.streams)
    for x, y in ((np.ma.MaskedArray(array()), array()), (array(), np.ma.MaskedArray(array()))):
        with pytest.raises(XpuLaunchException, match="MaskedArray has a mask"):
            kernel(x, out=y)
    assert len(device.streams) == count


@pytest.mark.parametrize("count", [1, 3])
def test_the_number_of_arrays_is_looked_at_afterwards(bound, array, count):
    arguments = tuple(Argument(name, "float32", "read") for name in "ab")
    arguments = (*arguments, Argument("y", "float32", "write"))
    kernel = bound(arguments=arguments)
    for _ in range(3):
        kernel(array(), array(), out=array())
    with pytest.raises(XpuLaunchException, match=f"takes a, b and out=, given {count} arrays"):
        kernel(*[array() for _ in range(count)], out=array())


def test_several_results_and_one_that_is_not_last_keep_their_places(bound, array):
    arguments = (
        Argument("y", "float32", "write"),
        Argument("state", "float32", "update"),
        Argument("x", "float32", "read"),
    )
    # The last that is written is the result: `state` comes as out=.
    kernel = bound(arguments=arguments, kernel=CopyKernel(reads=2, writes=1))
    whole = array(12)
    for _ in range(5):
        y, x, state = array(), array(), array()
        kernel(y, x, out=state)
        np.testing.assert_array_equal(state, 2 * x)
        with pytest.raises(XpuLaunchException, match="'y' is written and overlaps 'x'"):
            kernel(whole[:8], whole[4:], out=array())


def test_arrays_of_several_kinds_take_turns(bound, device, array):
    kernel = bound()
    for turn in range(50):
        x = (array, lambda: Torchlike(array()), lambda: Opaque(array()))[turn % 3]()
        y = (array, lambda: Torchlike(array()))[turn % 2]()
        kernel(x, out=y)
        np.testing.assert_array_equal(plain(y), 2 * plain(x))
    assert device.packed <= 8
    assert not any(
        isinstance(ref(), Opaque) for refs in kernel.calls.plans.arrays.values() for ref in refs
    )


def test_an_array_that_lies_elsewhere_than_it_says_is_taken_at_every_call(bound, device, array):
    class Mirrored(Torchlike):
        def data_ptr(self):
            return super().data_ptr() + 64

    kernel, y = bound(), array()
    for _ in range(5):
        x = Mirrored(array())
        kernel(x, out=y)
        np.testing.assert_array_equal(y, 2 * x.array)
    assert device.imported == 10


def test_a_launch_that_fails_is_not_used_again(bound, device, array):
    kernel, y = bound(), array()
    kernel(array(), out=y)
    kernel(array(), out=y)
    device.fails = True
    with pytest.raises(XpuLaunchException, match="no scratch"):
        kernel(array(), out=y)
    device.fails = False
    packed = device.packed
    x = array()
    kernel(x, out=y)
    np.testing.assert_array_equal(y, 2 * x)
    assert device.packed == packed + 1


def test_streams_have_launches_of_their_own(bound, device, array):
    kernel = bound()
    streams = [None, 7, object(), ["cannot be hashed"]]
    for _ in range(3):
        for stream in streams:
            x, y = array(), array()
            kernel(x, out=y, stream=stream)
            np.testing.assert_array_equal(y, 2 * x)
            assert device.streams[-1] is stream


def test_threads_with_fresh_arrays_do_not_mix(bound, device):
    kernel, faults = bound(), []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(500):
            x, y = rng.standard_normal(8).astype(np.float32), np.empty(8, np.float32)
            kernel(x, out=y)
            if not (y == 2 * x).all():
                faults.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert device.packed < 40
