"""Launches: what is packed, where it goes, and what is refused before it is made."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Launch
from xpu_backend_cuda.launch import stream_number

ONE = Launch((1, 1, 1), (64, 1, 1))


@pytest.fixture
def arrays(opened):
    source = np.random.default_rng().integers(0, 255, 1000).astype(np.uint8)
    return opened.from_host(source), opened.allocate(1000, poisoned=True)


def test_a_launch_passes_its_parameters_in_order(fake, opened, code, arrays) -> None:
    source, result = arrays
    seen = []
    fake.kernels["copy"].run = lambda *values: seen.append(values)
    launch = opened.launcher(opened.load(code, "copy"), ONE, arrays, (1000,))
    gc.collect()
    for _ in range(3):
        launch()
    opened.synchronize()
    assert seen == [(source.address, result.address, 1000)] * 3


def test_a_call_is_one_call_of_the_driver(fake, opened, code, arrays) -> None:
    launch = opened.launcher(opened.load(code, "copy"), ONE, arrays, (1000,))
    fake.stack.append(0x1000)
    fake.calls.clear()
    launch()
    assert fake.calls == ["cuLaunchKernel"]
    opened.synchronize()
    assert np.array_equal(opened.to_host(arrays[0]), opened.to_host(arrays[1]))


@pytest.mark.parametrize("has_context", [True, False])
def test_a_result_is_cleared_before_each_launch(fake, opened, code, arrays, has_context) -> None:
    source, result = arrays
    adding = attrs.evolve(ONE, clears_result=True)
    launch = opened.launcher(opened.load(code, "copy"), adding, arrays, (400,))
    fake.stack[:] = [0x1000] if has_context else []
    for _ in range(2):
        launch()
        launch()
        opened.synchronize()
        copied = opened.to_host(result)
        assert np.array_equal(copied[:400], opened.to_host(source)[:400])
        assert not copied[400:].any()
        opened.poison(result)
    assert launch.stream == 0


def test_only_a_default_stream_asks_for_the_context_before_clearing(
    fake, opened, code, arrays
) -> None:
    adding, kernel = attrs.evolve(ONE, clears_result=True), opened.load(code, "copy")
    own = int(fake.cuStreamCreate(1)[1])
    fake.stack[:] = [0x1000]
    for stream, before in ((own, []), (0, ["cuCtxGetCurrent"]), (2, ["cuCtxGetCurrent"])):
        launch = opened.launcher(kernel, adding, arrays, (400,), stream)
        fake.calls.clear()
        launch()
        assert fake.calls == [*before, "cuMemsetD8Async", "cuLaunchKernel"]


@pytest.mark.parametrize("is_default", [True, False])
def test_a_result_is_cleared_where_the_launch_goes(fake, opened, code, arrays, is_default) -> None:
    stream = 0 if is_default else int(fake.cuStreamCreate(1)[1])
    contexts, memset = [], fake.cuMemsetD8Async

    def noting(*given):
        if fake.stack[-1] == 0x7777 and not is_default:
            return (400,)  # as the driver does for a stream of another context
        contexts.append(fake.stack[-1])
        return memset(*given)

    fake.cuMemsetD8Async = noting
    adding = attrs.evolve(ONE, clears_result=True)
    launch = opened.launcher(opened.load(code, "copy"), adding, arrays, (400,), stream)
    fake.stack[:] = [0x7777]
    launch()
    assert contexts == [0x1000]
    assert fake.stack == [0x7777]
    opened.synchronize()
    copied = opened.to_host(arrays[1])
    assert np.array_equal(copied[:400], opened.to_host(arrays[0])[:400])
    assert not copied[400:].any()


@pytest.mark.parametrize("clears", [False, True])
def test_a_launch_moves_to_other_arrays_and_nothing_stays_behind(
    fake, opened, code, arrays, clears
) -> None:
    kernel = opened.load(code, "copy")
    launch = opened.launcher(kernel, attrs.evolve(ONE, clears_result=clears), arrays, (400,))
    fake.stack[:] = [0x1000]
    before = opened.to_host(arrays[1])
    for _ in range(3):
        source = opened.from_host(np.random.default_rng().integers(0, 255, 1000).astype(np.uint8))
        result = opened.allocate(1000, poisoned=True)
        launch.addresses[0], launch.addresses[1] = source.address, result.address
        fake.calls.clear()
        launch()
        launches = [name for name in fake.calls if name in ("cuMemsetD8Async", "cuLaunchKernel")]
        assert launches == ["cuMemsetD8Async"] * clears + ["cuLaunchKernel"]
        opened.synchronize()
        copied = opened.to_host(result)
        assert np.array_equal(copied[:400], opened.to_host(source)[:400])
        assert (copied[400:] == (0 if clears else 0xFF)).all()
    assert np.array_equal(opened.to_host(arrays[1]), before)


def test_the_legacy_stream_is_never_recorded(fake, opened, code, arrays) -> None:
    kernel = opened.load(code, "copy")
    told = [opened.launcher(kernel, ONE, arrays, (1,), each).is_recordable for each in (None, 0, 7)]
    assert told == [False, False, True]


def test_a_packed_launch_keeps_no_array(fake, opened, code, arrays) -> None:
    import weakref

    kept = opened.allocate(10)
    end = weakref.ref(kept.owner)
    launch = opened.launcher(opened.load(code, "copy"), ONE, [kept, kept], (3,))
    del kept
    gc.collect()
    assert end() is None
    assert launch.stream == 0


def test_a_block_that_is_not_given_is_the_one_compiled_for(fake, opened, code, arrays) -> None:
    kernel = opened.load(code, "copy")
    opened.launcher(kernel, Launch((2, 3, 4)), arrays, (1,), stream=77)()
    (_, (_, _, shape, _)) = fake.queues[77][0]
    assert shape == (2, 3, 4, 256, 1, 1, 0)


def test_an_empty_grid_launches_nothing(fake, opened, code, arrays) -> None:
    kernel = opened.load(code, "copy")
    fake.calls.clear()
    opened.launcher(kernel, Launch((0, 1, 1)), arrays, (1,))()
    assert "cuLaunchKernel" not in fake.calls


def test_an_empty_grid_has_a_stream_and_clears_its_result(fake, opened, code, arrays) -> None:
    kernel = opened.load(code, "copy")
    launch = opened.launcher(kernel, Launch((0, 1, 1), clears_result=True), arrays, (1,), 77)
    assert launch.stream == 77
    launch()
    opened.synchronize()
    assert not opened.to_host(arrays[1]).any()


@pytest.mark.parametrize(
    ("launch", "sizes", "words"),
    [
        (Launch((2**31, 1, 1), (64, 1, 1)), (1,), "2147483648 blocks along x.*0 to 2147483647"),
        (Launch((1, 65536, 1), (64, 1, 1)), (1,), "65536 blocks along y.*0 to 65535"),
        (Launch((1, 1, -1), (64, 1, 1)), (1,), "-1 blocks along z"),
        (Launch((1, 1, 1), (16, 17, 1)), (1,), "272 threads.*40 registers.*256"),
        (Launch((1, 1, 1), (64, 0, 1)), (1,), "side below 1"),
        (Launch((1, 1, 1), (1, 1, 65)), (1,), "65 threads along z, the device takes 1 to 64"),
        (Launch((1, 1, 1), (64, 1, 1), 232000), (1,), "233024 bytes of shared.*1024.*232448"),
        (ONE, (1, 2), "takes 3 arrays and sizes, given 2 arrays and 2 sizes"),
    ],
)
def test_a_launch_that_cannot_be_made_is_refused_when_packed(
    fake, opened, code, arrays, launch, sizes, words
) -> None:
    kernel = opened.load(code, "copy")
    with pytest.raises(XpuLaunchException, match=f"kernel 'copy'.*{words}.*nothing was launched"):
        opened.launcher(kernel, launch, arrays, sizes)


def test_shared_memory_is_opted_in_to_where_it_must_be(fake, opened, code, arrays) -> None:
    kernel = opened.load(code, "copy")
    name = "MAX_DYNAMIC_SHARED_SIZE_BYTES"
    for dynamic, allowed in ((48128, 48128), (100_000, 100_000), (60_000, 100_000)):
        opened.launcher(kernel, Launch((1, 1, 1), (64, 1, 1), dynamic), arrays, (1,))
        assert kernel.function.attributes[name] == allowed
    assert fake.calls.count("cuFuncSetAttribute") == 1


def test_code_is_loaded_once_whatever_file_it_comes_from(fake, opened, code, tmp_path) -> None:
    copy = tmp_path / "again"
    copy.write_bytes(code.read_bytes())
    kernel = opened.load(code, "copy")
    assert opened.load(copy, "copy") is kernel
    fake.kernels["other"] = fake.kernels["copy"]
    other = opened.load(code, "other")
    assert other is not kernel
    assert (fake.modules, kernel.registers, kernel.static_shared_bytes) == (1, 40, 1024)


def test_code_that_cannot_be_loaded_is_refused_by_name(fake, opened, code, tmp_path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"junk")
    for path, entry, words in (
        (junk, "copy", "CUDA_ERROR_INVALID_IMAGE"),
        (tmp_path / "none", "copy", "No such file"),
        (code, "nothing", "CUDA_ERROR_NOT_FOUND"),
    ):
        with pytest.raises(XpuLaunchException, match=f"kernel '{entry}'.*{words}"):
            opened.load(path, entry)
    fake.cuFuncGetParamInfo = lambda _function, _index: (0, 0, 4)
    with pytest.raises(XpuLaunchException, match="4 bytes as parameter 0"):
        opened.load(code, "copy")


def test_a_cubin_says_itself_what_its_kernel_takes(fake, opened, compiler, unit, tmp_path) -> None:
    """The driver could only be asked until it reports an error."""
    texts = ("xpu::global<float> y, int64_t n", "xpu::global<float> y, int32_t n")
    units = [unit(f"XPU_KERNEL({each}) {{ y[n] = 1; }}", XPU_THREADS=32) for each in texts]
    entry = units[0].entry
    fake.kernels[entry] = fake.kernels["copy"]
    paths = [tmp_path / "good", tmp_path / "bad"]
    for path, code in zip(paths, compiler.compile(units, "sm_90", deadline_s=60), strict=True):
        path.write_bytes(code.code)
    assert opened.load(paths[0], entry).parameters == 2
    with pytest.raises(XpuLaunchException, match="takes 4 bytes as parameter 1"):
        opened.load(paths[1], entry)
    assert "cuFuncGetParamInfo" not in fake.calls


def test_a_kernel_of_another_device_or_backend_is_refused(fake, opened, code, arrays) -> None:
    from xpu.spec import LoadedKernel
    from xpu_backend_cuda.device import CudaDevice

    stranger = LoadedKernel()
    stranger.entry = "stranger"
    other = CudaDevice(1)
    for kernel in (other.load(code, "copy"), stranger):
        with pytest.raises(
            XpuLaunchException, match=f"{kernel.entry}.*not loaded on this .*; nothing was"
        ):
            opened.launcher(kernel, ONE, arrays, (1,))
    other.close()


def test_a_thread_without_a_context_gets_the_devices(fake, opened, code, arrays) -> None:
    launch = opened.launcher(opened.load(code, "copy"), ONE, arrays, (1000,))
    seen = []

    def work() -> None:
        for _ in range(2):
            launch()
        seen.append(list(fake.stack))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [[0x1000]]
    opened.synchronize()
    assert np.array_equal(opened.to_host(arrays[0]), opened.to_host(arrays[1]))


def test_another_context_of_the_caller_is_left_as_it_was(fake, opened, code, arrays) -> None:
    launch = opened.launcher(opened.load(code, "copy"), ONE, arrays, (1000,))
    fake.stack[:] = [0x7777]
    launch()
    assert fake.stack == [0x7777]
    assert len(fake.queues[0]) == 2  # poison, and the copy


def test_what_an_earlier_launch_did_is_said_as_such(fake, opened, code, arrays) -> None:
    launch = opened.launcher(opened.load(code, "copy"), ONE, arrays, (1000,))
    fake.fails["cuLaunchKernel"] = 700
    with pytest.raises(XpuLaunchException, match=r"ILLEGAL_ADDRESS.*earlier launch.*end this proc"):
        launch()
    fake.fails["cuLaunchKernel"] = 400
    fake.stack[:] = [0x1000]
    with pytest.raises(XpuLaunchException, match="CUDA_ERROR_INVALID_HANDLE"):
        launch()
    fake.fails = {"cuCtxSynchronize": 700}
    with pytest.raises(XpuLaunchException, match="did not end well: CUDA_ERROR_ILLEGAL_ADDRESS"):
        opened.synchronize()


class _Stream:
    __module__ = "cuda.bindings.driver"

    def __int__(self):
        return 12


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (None, 0),
        (5, 5),
        (SimpleNamespace(cuda_stream=6), 6),
        (SimpleNamespace(ptr=7), 7),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8),
        (SimpleNamespace(__cuda_stream__=(0, 9), ptr=3), 9),
        (_Stream(), 12),
    ],
)
def test_streams_of_all_libraries_are_understood(stream, number) -> None:
    assert stream_number(stream) == number


@pytest.mark.parametrize("stream", [True, -1, 1.5, "0", object(), SimpleNamespace(ptr="1")])
def test_what_is_no_stream_is_refused(stream) -> None:
    with pytest.raises(XpuLaunchException, match=r"is no stream.*; nothing was launched"):
        stream_number(stream)


def test_a_capture_is_seen(fake, opened) -> None:
    stream = fake.cuStreamCreate(1)[1]
    fake.calls.clear()
    assert not opened.is_capturing(stream)
    assert fake.calls == ["cuStreamIsCapturing"]
    fake.cuStreamBeginCapture(stream, "GLOBAL")
    assert opened.is_capturing(SimpleNamespace(cuda_stream=stream))
    assert not opened.is_capturing()
    fake.fails["cuStreamIsCapturing"] = 906
    assert opened.is_capturing(None)
    fake.fails["cuStreamIsCapturing"] = 400
    with pytest.raises(XpuLaunchException, match="INVALID_HANDLE"):
        opened.is_capturing(99)


def test_parameters_are_as_the_driver_reads_them(fake, opened, code, arrays) -> None:
    launch = opened.launcher(opened.load(code, "copy"), ONE, arrays, (np.int64(1000),))
    words = launch.parameters
    start = words.buffer_info()[0]
    assert list(words[:3]) == [start + 24, start + 32, start + 40]
    assert list(words[3:]) == [arrays[0].address, arrays[1].address, 1000]
