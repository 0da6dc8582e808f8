"""On a real GPU: facts, memory, launches, and what none of them leaves behind."""

from __future__ import annotations

import re
import sys
import threading

import numpy as np
import psutil
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, Launch
from xpu_backend_cuda import nvml
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.device import CudaDevice
from xpu_backend_cuda.driver import bindings, checked, device_count
from xpu_backend_cuda.facts import all_facts, target_of

MIB = 1 << 20


def free_bytes(gpu) -> int:
    with gpu.context.current() as cu:
        return int(checked(cu.cuMemGetInfo(), "memory")[0])


def test_facts_are_those_of_a_gpu(gpu, record_property) -> None:
    facts = gpu.facts
    record_property("facts", facts)
    assert all_facts()[0] == facts
    assert facts.architecture == target_of(0)
    assert re.fullmatch(r"sm_\d{2,3}", facts.architecture)
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", facts.uuid)
    assert re.match(r"\d{3}\.\d+|CUDA \d+\.\d", facts.driver_version)
    assert (facts.wave_width, facts.max_threads_per_block) == (32, 1024)
    assert 1 <= facts.multiprocessors <= 1024
    assert facts.shared_bytes_per_block == 48 << 10
    assert facts.shared_bytes_per_block <= facts.shared_bytes_per_block_optin
    assert facts.shared_bytes_per_block_optin < facts.shared_bytes_per_multiprocessor
    assert facts.registers_per_multiprocessor == 65536
    assert facts.last_level_cache_bytes >= MIB
    assert facts.memory_bytes >= 1 << 30
    assert (facts.max_grid_x, facts.max_grid_y, facts.max_grid_z) == (2**31 - 1, 65535, 65535)


def test_the_facts_of_an_h200(gpu) -> None:
    if gpu.facts.name != "NVIDIA H200":
        pytest.skip(f"this is a {gpu.facts.name}")
    facts = gpu.facts
    assert (facts.architecture, facts.multiprocessors) == ("sm_90", 132)
    assert (facts.max_threads_per_multiprocessor, facts.max_blocks_per_multiprocessor) == (2048, 32)
    assert facts.shared_bytes_per_block_optin == 232448
    assert facts.shared_bytes_per_multiprocessor == 233472
    assert facts.reserved_shared_bytes_per_block == 1024
    assert {"int8->int32:16x16x32", "bfloat16->float32:16x16x16"} <= set(facts.matrix_shapes)


def test_memory_holds_what_it_was_given(gpu) -> None:
    rng = np.random.default_rng()
    for nbytes in (1, 511, 2 * MIB, 2 * MIB + 1, 300 * MIB + 3):
        given = rng.integers(0, 256, nbytes, dtype=np.uint8)
        array = gpu.from_host(given)
        assert array.address % 256 == 0
        assert np.array_equal(gpu.to_host(array), given)
        other = gpu.allocate(nbytes, poisoned=True)
        assert (gpu.to_host(other) == 0xFF).all()
        gpu.copy(array, other)
        gpu.poison(array)
        assert np.array_equal(gpu.to_host(other), given)
        assert (gpu.to_host(array) == 0xFF).all()


def test_poisoned_floats_are_not_numbers(gpu) -> None:
    array = gpu.allocate(4000, poisoned=True)
    assert np.isnan(gpu.to_host(array).view(np.float32)).all()


def test_too_much_memory_is_refused_by_name_and_harms_nothing(gpu) -> None:
    with pytest.raises(XpuLaunchException, match=r"memory of device 0.*CUDA_ERROR_OUT_OF_MEMORY"):
        gpu.allocate(1 << 50)
    gpu.synchronize()
    assert gpu.allocate(100).nbytes == 100


def test_a_kernel_computes(gpu, twice) -> None:
    for n in (1, 1000, 1 << 22):
        x = np.random.default_rng().standard_normal(n, dtype=np.float32)
        y = gpu.allocate(4 * n, poisoned=True)
        launch = twice(gpu.from_host(x), y, n)
        for _ in range(2):
            launch()
        gpu.synchronize()
        assert np.array_equal(gpu.to_host(y).view(np.float32), 2 * x)


def test_a_result_is_cleared_before_each_launch(gpu, ptx) -> None:
    x, y = gpu.from_host(np.ones(100, np.float32)), gpu.allocate(4000, poisoned=True)
    launch = Launch((1, 1, 1), (256, 1, 1), clears_result=True)
    packed = gpu.launcher(gpu.load(ptx, "twice"), launch, [x, y], [100])
    for _ in range(2):
        packed()
        gpu.synchronize()
        result = gpu.to_host(y).view(np.float32)
        assert (result[:100] == 2).all()
        assert not result[100:].any()
        gpu.poison(y)


def test_a_kernel_says_what_it_can_be_launched_with(gpu, ptx) -> None:
    kernel = gpu.load(ptx, "bounded")
    assert (kernel.threads, kernel.parameters) == (96, 1)
    assert kernel.registers > 0
    y = gpu.allocate(4)
    gpu.launcher(kernel, Launch(), [y], [])()
    assert gpu.to_host(y).view(np.int32)[0] == 96, "a block that is not given is the compiled one"
    with pytest.raises(XpuLaunchException, match=r"97 threads.*96"):
        gpu.launcher(kernel, Launch((1, 1, 1), (97, 1, 1)), [y], [])
    with pytest.raises(XpuLaunchException, match="takes 1 arrays and sizes, given 1 arrays and 2"):
        gpu.launcher(kernel, Launch(), [y], [1, 2])


def test_all_of_the_shared_memory_can_be_had(gpu, ptx) -> None:
    kernel = gpu.load(ptx, "shared")
    most = gpu.facts.shared_bytes_per_block_optin - kernel.static_shared_bytes
    for dynamic in (1024, 48 << 10, 64 << 10, most):
        y = gpu.allocate(1)
        launch = Launch((1, 1, 1), (1, 1, 1), dynamic)
        gpu.launcher(kernel, launch, [y], [dynamic - 1])()
        assert gpu.to_host(y)[0] == 0x55
    with pytest.raises(XpuLaunchException, match=f"{most + 1} bytes of shared memory.*nothing was"):
        gpu.launcher(kernel, Launch((1, 1, 1), (1, 1, 1), most + 1), [y], [0])


def test_code_that_is_none_is_refused_by_name(gpu, ptx, tmp_path) -> None:
    for text in (b"this is no code", ptx.read_bytes()[:900]):
        junk = tmp_path / "junk"
        junk.write_bytes(text)
        with pytest.raises(XpuLaunchException, match=r"kernel 'twice'.*CUDA_ERROR_"):
            gpu.load(junk, "twice")
    with pytest.raises(XpuLaunchException, match=r"kernel 'none'.*CUDA_ERROR_NOT_FOUND"):
        gpu.load(ptx, "none")
    gpu.synchronize()


def test_any_thread_may_launch(gpu, twice) -> None:
    x = np.arange(1000, dtype=np.float32)
    y = gpu.allocate(4000, poisoned=True)
    launch, seen = twice(gpu.from_host(x), y, 1000), []

    def work() -> None:
        launch()
        gpu.synchronize()
        seen.append(gpu.to_host(y).view(np.float32))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all(np.array_equal(each, 2 * x) for each in seen)


def test_another_context_of_the_caller_is_left_as_it_was(gpu, twice) -> None:
    cu = bindings()
    given = (None, 0) if "ctxCreateParams" in (cu.cuCtxCreate.__doc__ or "") else (0,)
    other = checked(cu.cuCtxCreate(*given, gpu.context.device), "a second context")
    try:
        x = np.arange(1000, dtype=np.float32)
        y = gpu.allocate(4000, poisoned=True)
        twice(gpu.from_host(x), y, 1000)()
        gpu.synchronize()
        assert np.array_equal(gpu.to_host(y).view(np.float32), 2 * x)
        assert int(checked(cu.cuCtxGetCurrent(), "current")) == int(other)
    finally:
        cu.cuCtxDestroy(other)


def test_streams_run_what_is_launched_on_them(gpu, ptx, twice) -> None:
    cu = bindings()
    with gpu.context.current():
        stream = checked(cu.cuStreamCreate(1), "a stream")
    x = np.arange(1000, dtype=np.float32)
    source, y = gpu.from_host(x), gpu.allocate(4000, poisoned=True)
    gpu.synchronize()
    gpu.launcher(gpu.load(ptx, "busy"), Launch((1, 1, 1), (1, 1, 1)), [], [20_000_000], stream)()
    twice(source, y, 1000, stream)()
    assert np.isnan(gpu.to_host(y).view(np.float32)).all(), "it did not wait its turn"
    with gpu.context.current():
        checked(cu.cuStreamSynchronize(stream), "a stream")
    assert np.array_equal(gpu.to_host(y).view(np.float32), 2 * x)
    assert not gpu.is_capturing(stream)
    with gpu.context.current():
        cu.cuStreamDestroy(stream)


def test_thousands_of_allocations_and_loads_leave_nothing_behind(gpu, ptx, twice) -> None:
    def round_trip(count: int) -> None:
        for index in range(count):
            n = 1000 * (1 + index % 40)
            x, y = gpu.allocate(4 * n), gpu.allocate(4 * n)
            gpu.load(ptx, ("twice", "busy")[index % 2])
            launch = twice(x, y, n, gpu.timer().stream, blocks=1 + index % 7)
            if index % 25 == 0:
                gpu.timer().bracket_ns([launch] * (1 + index % 3))
            launch()
            if index % 3 == 0:
                gpu.synchronize()

    round_trip(300)
    gpu.synchronize()
    process = psutil.Process()
    before, host = free_bytes(gpu), process.memory_info().rss
    round_trip(1000)
    gpu.synchronize()
    assert before - free_bytes(gpu) <= 32 * MIB
    assert process.memory_info().rss - host <= 16 * MIB


def test_a_device_that_is_closed_gives_its_memory_back(gpu) -> None:
    before = free_bytes(gpu)
    for _ in range(10):
        device = CudaDevice(0)
        arrays = [device.allocate(64 * MIB) for _ in range(3)]
        device.timer().bracket_ns([])
        del arrays
        device.close()
    assert before - free_bytes(gpu) <= 32 * MIB
    assert (gpu.to_host(gpu.allocate(16, poisoned=True)) == 0xFF).all()


def test_arrays_of_another_context_are_not_taken_for_the_devices(gpu) -> None:
    with pytest.raises(XpuLaunchException, match="host memory"):
        gpu.import_array(DeviceArray(np.zeros(9).ctypes.data, (9,), "uint8", None), writable=False)


def test_two_devices_in_one_process(gpu, ptx) -> None:
    if device_count() < 2:
        pytest.skip("there is one device")
    other = CudaDevice(1)
    assert other.facts.uuid != gpu.facts.uuid
    x = np.arange(1000, dtype=np.float32)
    results = []
    for device in (gpu, other, gpu):
        y = device.allocate(4000, poisoned=True)
        kernel = device.load(ptx, "twice")
        launch = Launch((4, 1, 1), (256, 1, 1))
        source = device.from_host(x)
        device.launcher(kernel, launch, [source, y], [1000])()
        device.synchronize()
        results.append((device, kernel, y))
        assert np.array_equal(device.to_host(y).view(np.float32), 2 * x)
        timer = device.timer()
        timed = device.launcher(kernel, launch, [source, y], [1000], timer.stream)
        assert timer.bracket_ns([timed] * 20) > 0
    with pytest.raises(XpuLaunchException, match="another device, number 0"):
        other.import_array(results[0][2], writable=True)
    with pytest.raises(XpuLaunchException, match="not loaded on this device"):
        other.launcher(results[0][1], Launch(), [], [])
    other.close()
    with pytest.raises(XpuLaunchException, match=str(device_count())):
        Context(device_count())


def test_without_the_management_library_everything_works(gpu, ptx, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml._library.cache_clear()
    device = CudaDevice(0)
    assert device.facts.driver_version.startswith("CUDA ")
    assert device.foreign_load() is None
    assert "power" not in device.identity()
    timer = device.timer()
    launch = device.launcher(
        device.load(ptx, "busy"), Launch((1, 1, 1), (1, 1, 1)), [], [100_000], timer.stream
    )
    assert 90_000 < timer.bracket_ns([launch]) < 130_000
    assert "sm_clock_mhz" not in timer.describe()
    device.close()
