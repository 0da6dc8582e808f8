"""Launches of the device half: arguments, order, streams, captures and errors."""

from __future__ import annotations

import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from hip_stub import ADD, OUTSIDE

from xpu.errors import XpuLaunchException
from xpu.spec import Launch, LoadedKernel
from xpu_backend_hip.device import HipDevice
from xpu_backend_hip.launch import stream_number

ONE = Launch((2, 1, 1), (32, 1, 1))
ADDING = attrs.evolve(ONE, clears_result=True)
N = 50


@pytest.fixture
def arrays(opened: HipDevice) -> Any:
    a = opened.from_host(np.arange(N, dtype=np.float32))
    return a, opened.from_host(np.full(N, 100, np.float32))


def made(opened: HipDevice) -> int:
    """Return a stream of a program's own, which waits for no default stream."""
    return int(opened.context.hip.hipStreamCreateWithFlags(1)[1])


def test_a_launch_computes_when_somebody_waits(stub, opened, add, arrays) -> None:
    a, y = arrays
    launch = opened.launcher(add, ONE, arrays, (N,))
    for times in (1, 2, 3):
        launch()
        opened.synchronize()
        assert np.array_equal(opened.to_host(y), 100 + times * np.arange(N))
    assert np.array_equal(opened.to_host(a), np.arange(N))


def test_a_call_is_one_call_with_its_arguments_in_order(stub, opened, add, arrays) -> None:
    launch = opened.launcher(add, ONE, arrays, (np.int64(N),))
    gc.collect()
    stub.forget()
    launch()
    a, y = (array.address for array in arrays)
    said = f"hipModuleLaunchKernel kernel_under_test 2 1 1, 32 1 1, 0: {a} {y} {N}"
    assert stub.calls() == [said]


def test_a_result_is_cleared_before_each_launch_in_its_stream(stub, opened, add, arrays) -> None:
    y = arrays[1]
    for stream in (None, made(opened)):
        launch = opened.launcher(add, ADDING, arrays, (N,), stream)
        stub.forget()
        launch()
        launch()
        assert stub.names() == 2 * ["hipMemsetD8Async", "hipModuleLaunchKernel"]
        opened.synchronize()
        assert np.array_equal(opened.to_host(y), np.arange(N))


@pytest.mark.parametrize("launch", [ONE, ADDING], ids=["plain", "clearing"])
def test_a_launch_moves_to_other_arrays_and_nothing_stays_behind(
    stub, opened, add, arrays, launch
) -> None:
    packed = opened.launcher(add, launch, arrays, (N,))
    before = opened.to_host(arrays[1])
    start = 0 if launch.clears_result else 7
    for factor in (2, 3):
        a = opened.from_host(np.full(N, factor, np.float32))
        y = opened.from_host(np.full(N, 7, np.float32))
        packed.addresses[0], packed.addresses[1] = a.address, y.address
        packed()
        packed.addresses[0] = packed.addresses[1] = 0  # what was queued has read its addresses
        opened.synchronize()
        assert np.array_equal(opened.to_host(y), np.full(N, start + factor, np.float32))
    assert np.array_equal(opened.to_host(arrays[1]), before)


def test_a_packed_launch_keeps_no_array(opened, add) -> None:
    kept = opened.allocate(4 * N)
    end = weakref.ref(kept.owner)
    launch = opened.launcher(add, ONE, [kept, kept], (N,))
    del kept
    gc.collect()
    assert end() is None
    assert launch.stream == 0
    both = [opened.allocate(4 * N)] * 2
    streams = (None, 0, made(opened))
    told = [opened.launcher(add, ONE, both, (N,), each).is_recordable for each in streams]
    assert told == [False, False, True]


def test_an_empty_grid_launches_nothing_and_clears_its_result(stub, opened, add, arrays) -> None:
    empty = Launch((0, 1, 1), clears_result=True)
    launch = opened.launcher(add, empty, arrays, (N,))
    stub.forget()
    launch()
    assert stub.names() == ["hipMemsetD8Async"]
    assert not opened.to_host(arrays[1]).any()


def test_a_block_that_is_not_given_is_the_one_compiled_for(stub, opened, add, arrays) -> None:
    stub.forget()
    opened.launcher(add, Launch((1, 1, 1)), arrays, (N,))()
    assert ", 32 1 1, 0:" in stub.calls()[0]


@pytest.mark.parametrize(
    ("launch", "sizes", "words"),
    [
        (Launch((2**31, 1, 1), (32, 1, 1)), (1,), "2147483648 blocks along x.*0 to 2147483647"),
        (Launch((1, 65536, 1), (32, 1, 1)), (1,), "65536 blocks along y.*0 to 65535"),
        (Launch((1, 1, -1), (32, 1, 1)), (1,), "-1 blocks along z"),
        (Launch((2**27, 1, 1), (32, 1, 1)), (1,), "4294967296 threads along x.*4294967295"),
        (Launch((1, 1, 1), (8, 5, 1)), (1,), "40 threads.*64 registers.*32"),
        (Launch((1, 1, 1), (32, 0, 1)), (1,), "side below 1"),
        (Launch((1, 1, 1), (1, 1, 1025)), (1,), "1025 threads along z, the device takes 1 to 1024"),
        (Launch((1, 1, 1), (32, 1, 1), 70000), (1,), "70000 bytes of shared.*0 of.*65536"),
        (ONE, (1, 2), "takes 3 arrays and sizes, given 2 arrays and 2 sizes"),
    ],
)
def test_a_launch_that_cannot_be_made_is_refused_when_packed(
    opened, add, arrays, launch, sizes, words
) -> None:
    with pytest.raises(XpuLaunchException, match=f"{words}.*nothing was launched"):
        opened.launcher(add, launch, arrays, sizes)


def test_what_the_runtime_refuses_is_said_by_name(stub, opened, add, arrays) -> None:
    launch = opened.launcher(add, ADDING, arrays, (N,))
    stub.fail("hipModuleLaunchKernel", 400)
    with pytest.raises(XpuLaunchException, match=r"kernel_under_test.*hipErrorInvalidHandle; noth"):
        launch()
    stub.fail("hipMemsetD8Async", 12345)
    with pytest.raises(XpuLaunchException, match=r"cannot be cleared: hipError_12345"):
        launch()
    launch()
    opened.synchronize()


def test_a_kernel_that_leaves_its_arrays_loses_the_device(stub, opened, built, arrays) -> None:
    outside = opened.load(built(OUTSIDE), "kernel_under_test")
    opened.launcher(outside, ONE, arrays, (10_000,))()
    with pytest.raises(XpuLaunchException, match=r"did not end well: hipErrorIllegalAddress.*end"):
        opened.synchronize()
    with pytest.raises(XpuLaunchException, match="hipErrorIllegalAddress") as error:
        opened.allocate(10, poisoned=True)
    assert error.value.is_sticky


def test_a_thread_is_left_as_it_was_found(stub, opened, add, arrays) -> None:
    seen = []

    def work() -> None:
        opened.launcher(add, ONE, arrays, (N,))()
        opened.synchronize()
        seen.append(stub.thread)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, 0)]
    assert np.array_equal(opened.to_host(arrays[1]), 100 + np.arange(N))


def test_threads_launch_at_once(stub, opened, add, arrays) -> None:
    launches = [opened.launcher(add, ONE, arrays, (N,)) for _ in range(4)]

    def work(launch: Any) -> None:
        for _ in range(25):
            launch()

    threads = [threading.Thread(target=work, args=(launch,)) for launch in launches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened.synchronize()
    assert np.array_equal(opened.to_host(arrays[1]), 100 + 100 * np.arange(N))


def test_work_is_done_while_somebody_captures_elsewhere(stub, opened, add, arrays) -> None:
    stream = made(opened)
    opened.context.hip.hipStreamBeginCapture(stream, 0)  # global: it forbids others what it can
    try:
        assert opened.is_capturing(stream)
        assert opened.is_capturing(SimpleNamespace(cuda_stream=stream))
        assert not opened.is_capturing()
        assert np.array_equal(opened.to_host(opened.from_host(np.arange(5))), np.arange(5))
        opened.synchronize()
    finally:
        opened.context.hip.hipStreamEndCapture(stream)
    assert not opened.is_capturing(stream)
    stub.fail("hipStreamIsCapturing", 906)
    assert opened.is_capturing()
    stub.fail("hipStreamIsCapturing", 400)
    with pytest.raises(XpuLaunchException, match="hipErrorInvalidHandle"):
        opened.is_capturing(stream)


def test_a_launch_is_recorded_and_replayed(stub, opened, add, arrays) -> None:
    hip, stream = opened.context.hip, made(opened)
    launch = opened.launcher(add, ONE, arrays, (N,), stream)
    hip.hipStreamBeginCapture(stream, 2)
    launch()
    launch()
    graph = hip.hipStreamEndCapture(stream)[1]
    executable = hip.hipGraphInstantiateWithFlags(graph, 0)[1]
    launch.addresses[0] = launch.addresses[1] = 0  # what was recorded has read its addresses
    for _ in range(3):
        hip.hipGraphLaunch(executable, stream)
    hip.hipStreamSynchronize(stream)
    assert np.array_equal(opened.to_host(arrays[1]), 100 + 6 * np.arange(N))
    hip.hipGraphExecDestroy(executable)
    hip.hipGraphDestroy(graph)


class ihipStream_t:  # noqa: N801 - what hip-python calls it
    def __int__(self) -> int:
        return 12


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (None, 0),
        (5, 5),
        (SimpleNamespace(cuda_stream=6), 6),
        (SimpleNamespace(ptr=7), 7),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8),
        (ihipStream_t(), 12),
    ],
)
def test_streams_of_all_libraries_are_understood(stream, number) -> None:
    assert stream_number(stream) == number


def test_a_stream_of_hip_python_is_understood() -> None:
    from xpu_backend_hip.driver import bindings

    assert stream_number(bindings().ihipStream_t.fromObj(4096)) == 4096


@pytest.mark.parametrize("stream", [True, -1, 1.5, "0", object(), SimpleNamespace(ptr="1")])
def test_what_is_no_stream_is_refused(stream) -> None:
    with pytest.raises(XpuLaunchException, match=r"is no stream.*; nothing was launched"):
        stream_number(stream)


def test_a_kernel_of_another_backend_is_refused(opened, arrays) -> None:
    stranger = LoadedKernel()
    stranger.entry = "stranger"
    with pytest.raises(XpuLaunchException, match=r"stranger.*not loaded on this device"):
        opened.launcher(stranger, ONE, arrays, (N,))


def test_code_is_loaded_once_whatever_file_it_comes_from(stub, opened, built, tmp_path) -> None:
    copy = tmp_path / "again"
    copy.write_bytes(built(ADD).read_bytes())
    kernel = opened.load(built(ADD), "kernel_under_test")
    stub.forget()
    assert opened.load(copy, "kernel_under_test") is kernel
    assert stub.calls() == []
    footprint = kernel.threads, kernel.registers, kernel.static_shared_bytes, kernel.parameters
    assert footprint == (32, 64, 0, 3)


def test_code_that_cannot_be_loaded_is_refused_by_name(opened, built, tmp_path) -> None:
    junk, stranger = tmp_path / "junk", tmp_path / "stranger"
    junk.write_bytes(b"junk" * 100)
    code = bytearray(built(ADD).read_bytes())
    code[48] = 0x3F  # e_flags: it is for gfx90a
    stranger.write_bytes(code)
    for path, entry, words in (
        (junk, "kernel", "hipErrorInvalidImage.*build it again"),
        (stranger, "kernel", "hipErrorNoBinaryForGpu.*another part"),
        (tmp_path / "none", "kernel", "No such file"),
        (built(ADD), "nothing", "hipErrorNotFound"),
    ):
        with pytest.raises(XpuLaunchException, match=f"kernel '{entry}'.*{words}"):
            opened.load(path, entry)
