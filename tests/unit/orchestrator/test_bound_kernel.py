from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from copy_device import CopyKernel, Opaque, Tensor

from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult
from xpu.spec import Argument


def test_the_same_arrays_are_checked_and_packed_once(bound, device, array):
    kernel, x, y = bound(), array(), array()
    for _ in range(5):
        x += 1
        assert kernel(x, out=y) is y
        np.testing.assert_array_equal(y, 2 * x)
    assert (device.packed, device.imported, len(device.streams)) == (1, 2, 5)


def test_other_arrays_or_another_stream_are_packed_anew(bound, device, array):
    kernel = bound()
    xs, ys, streams = [array(), array()], [array(), array()], [None, 7, object()]
    for _ in range(2):
        for x in xs:
            for y in ys:
                for stream in streams:
                    y[:] = np.nan
                    kernel(x, out=y, stream=stream)
                    np.testing.assert_array_equal(y, 2 * x)
    assert device.packed == 12
    assert [device.streams.count(stream) for stream in streams] == [8, 8, 8]


def test_a_stream_that_cannot_be_hashed_is_passed_on_all_the_same(bound, device, array):
    kernel, x, y = bound(), array(), array()
    stream = ["unhashable"]
    kernel(x, out=y, stream=stream)
    kernel(x, out=y, stream=stream)
    assert (device.packed, device.streams) == (2, [stream, stream])


def test_no_array_is_kept_alive_and_a_dead_one_leaves_nothing_behind(bound, array):
    kernel = bound()
    for _ in range(100):
        x, y = array(), array()
        kernel(x, out=y)
    assert len(kernel.calls.plans) == 1
    dead = weakref.ref(x)
    del x
    assert dead() is None
    assert kernel.calls.plans == {}


def test_arrays_that_die_in_a_cycle_leave_nothing_behind(bound, array):
    class Held(np.ndarray):
        pass

    kernel, y = bound(), array()
    for _ in range(10):
        x = array().view(Held)
        x.me = x
        kernel(x, out=y)
    del x
    gc.collect()
    assert kernel.calls.plans == {}


def test_a_bound_kernel_goes_with_its_last_reference(bound, array):
    x, y = array(), array()
    kernel = bound()
    kernel(x, out=y)
    gone = weakref.ref(kernel)
    gc.disable()
    try:
        del kernel
        assert gone() is None
    finally:
        gc.enable()
    del x  # its callback finds no kernel


def test_a_number_that_a_new_array_inherits_means_the_new_array(bound, array):
    # Freed arrays give their numbers to the next: the results tell whether that is noticed.
    kernel, y = bound(), array()
    seen = set()
    for value in range(300):
        x = np.full(8, value, np.float32)
        seen.add(id(x))
        kernel(x, out=y)
        assert (y == 2 * value).all()
        del x
    assert len(seen) < 300


def test_a_tensor_whose_memory_was_exchanged_is_packed_anew(bound, device, array):
    kernel, y = bound(), array()
    x = Tensor(array())
    kernel(x, out=y)
    kernel(x, out=y)
    assert device.packed == 1
    x.array = array()
    kernel(x, out=y)
    np.testing.assert_array_equal(y, 2 * x.array)
    assert device.packed == 2
    out = Tensor(array())
    kernel(x, out=out)
    out.array = array()
    assert kernel(x, out=out) is out
    np.testing.assert_array_equal(out.array, 2 * x.array)


def test_an_array_that_does_not_tell_its_address_is_taken_at_every_call(bound, device, array):
    kernel, y = bound(), array()
    x = Opaque(array())
    for _ in range(3):
        x.array = array()
        kernel(x, out=y)
        np.testing.assert_array_equal(y, 2 * x.array)
    assert device.packed == 3


def test_an_array_that_cannot_be_held_weakly_is_taken_at_every_call(bound, device, array):
    class Slotted(Tensor):
        __slots__ = ("array",)

    class Bare:
        """A tensor without weak references."""

        __slots__ = ("array",)
        shape = property(lambda self: self.array.shape)
        data_ptr = Tensor.data_ptr

    kernel, y = bound(), array()
    bare = Bare()
    bare.array = array()
    device.import_array = lambda value, *, writable, real=device.import_array: real(
        value.array if isinstance(value, Bare) else value, writable=writable
    )
    kernel(bare, out=y)
    kernel(bare, out=y)
    np.testing.assert_array_equal(y, 2 * bare.array)
    assert device.packed == 2


def test_the_result_has_the_place_that_the_design_gives_it(bound, array):
    arguments = (Argument("y", "float32", "write"), Argument("x", "float32", "read"))
    kernel = bound(arguments=arguments, kernel=CopyKernel(reads=1, writes=0))
    x, y = array(), array()
    for _ in range(2):
        kernel(x, out=y)
        np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(XpuLaunchException, match="takes x and out=, given 2 arrays"):
        kernel(x, y, out=y)


def test_of_two_written_arguments_the_last_is_the_result(bound, array):
    arguments = (
        Argument("state", "float32", "update"),
        Argument("x", "float32", "read"),
        Argument("y", "float32", "write"),
    )
    kernel = bound(arguments=arguments, kernel=CopyKernel(reads=1, writes=2))
    state, x, y = array(), array(), array()
    kernel(state, x, out=y)
    np.testing.assert_array_equal(y, 2 * x)
    state.flags.writeable = False
    with pytest.raises(XpuLaunchException, match="'state': it is read-only"):
        kernel(state, x, out=array())
    whole = array(12)
    with pytest.raises(XpuLaunchException, match="'state' is written and overlaps 'x'"):
        kernel(whole[:8], whole[4:], out=y)


@pytest.mark.parametrize(
    ("inputs", "out", "words"),
    [
        ((), np.zeros(8, np.float32), ["takes x and out=", "given 0"]),
        ((np.zeros(9, np.float32),), np.zeros(8, np.float32), ["'x'", "(8,)", "(9,)"]),
        ((np.zeros((8, 1), np.float32),), np.zeros(8, np.float32), ["'x'", "(8, 1)"]),
        ((np.float32(3),), np.zeros(8, np.float32), ["'x'", "float32"]),
        ((np.array(3, np.float32),), np.zeros(8, np.float32), ["'x'", "()"]),
        ((np.zeros(8, np.float16),), np.zeros(8, np.float32), ["'x'", "float32", "float16"]),
        ((np.zeros(8, np.float32),), np.zeros(8, np.int32), ["'y'", "float32", "int32"]),
        ((np.zeros(8, np.float32),), None, ["'y'", "NoneType"]),
    ],
)
def test_what_does_not_fit_is_refused_by_name_before_anything_runs(
    bound, device, inputs, out, words
):
    with pytest.raises(XpuLaunchException) as error:
        bound()(*inputs, out=out)
    assert all(word in str(error.value) for word in ["twice 8", *words])
    assert device.packed == 0


@pytest.mark.parametrize("shift", [0, 1, 7, -1, -7])
def test_a_result_that_overlaps_an_input_is_refused(bound, shift):
    whole = np.zeros(24, np.float32)
    with pytest.raises(XpuLaunchException, match="'y' is written and overlaps 'x'"):
        bound()(whole[8:16], out=whole[8 + shift : 16 + shift])
    bound()(whole[8:16], out=whole[16:24])
    bound()(whole[8:16], out=whole[0:8])


def test_an_empty_problem_checks_its_arrays_and_launches_nothing(bound, device, array):
    kernel, whole = bound(0), array()
    out = whole[4:4]
    assert kernel(whole[:0], out=out) is out
    assert device.packed == 0
    with pytest.raises(XpuLaunchException, match="'x'"):
        kernel(whole, out=out)


def test_a_launch_that_fails_is_not_remembered(bound, device, array):
    kernel, x, y = bound(), array(), array()
    real = device.launcher

    def failing(*given, **named):
        real(*given, **named)
        raise XpuLaunchException("no scratch")

    device.launcher = failing
    with pytest.raises(XpuLaunchException, match="no scratch"):
        kernel(x, out=y)
    device.launcher = real
    kernel(x, out=y)
    np.testing.assert_array_equal(y, 2 * x)


def test_more_living_arrays_than_are_remembered_are_still_served(bound, array, monkeypatch):
    monkeypatch.setattr("xpu.orchestrator.plans._MOST_PLANS", 10)
    kernel, y = bound(), array()
    xs = [array() for _ in range(35)]
    for x in [*xs, *xs]:
        kernel(x, out=y)
        np.testing.assert_array_equal(y, 2 * x)
        assert len(kernel.calls.plans) <= 10


def test_threads_with_arrays_that_come_and_go(bound, array):
    kernel, faults = bound(), []

    def work(seed):
        rng = np.random.default_rng(seed)
        y = np.empty(8, np.float32)
        for _ in range(500):
            x = rng.standard_normal(8).astype(np.float32)
            for _ in range(3):
                kernel(x, out=y)
                if not (y == 2 * x).all():
                    faults.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    gc.collect()
    assert kernel.calls.plans == {}


def test_explain_says_who_serves_and_why(bound):
    result = ChoiceResult("twice", "8", "only", "timed", margin_permille=20, tie=True, note="why")
    text = bound(result=result).explain()
    assert text.splitlines() == [
        "twice 8: only (timed)",
        "  margin 20 permille, a tie",
        "  why",
    ]
