"""On a real GPU: arrays of torch, CuPy and JAX, and torch's graphs."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray


class Exporter:
    """Offers an array through DLPack alone."""

    def __init__(self, value) -> None:
        self._value = value

    def __dlpack__(self, **options):
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._value.__dlpack_device__()


@pytest.fixture
def torch(gpu):
    module = pytest.importorskip("torch", reason="torch is not installed")
    if not module.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    return module


@pytest.fixture
def cupy(gpu):
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.fixture
def jax(gpu, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module = pytest.importorskip("jax", reason="JAX is not installed")
    try:
        devices = module.devices("gpu")
    except RuntimeError as error:
        pytest.skip(f"JAX has no GPU here: {error}")
    return module, devices[0]


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool", "float8_e4m3fn"]
)
def test_a_tensor_is_taken_where_it_lies(gpu, torch, dtype) -> None:
    tensor = torch.zeros((3, 5), dtype=getattr(torch, dtype), device="cuda")
    for value in (tensor, tensor[1:], Exporter(tensor)):
        if dtype.startswith("float8") and isinstance(value, Exporter):
            continue
        taken = gpu.import_array(value, writable=True)
        given = tensor[1:] if value is not tensor and not isinstance(value, Exporter) else tensor
        assert (taken.address, taken.shape) == (given.data_ptr(), tuple(given.shape))
        assert taken.dtype == dtype


def test_what_the_device_writes_is_in_the_tensor(gpu, torch, twice) -> None:
    x = torch.randn(100_000, device="cuda")
    y = torch.full_like(x, float("nan"))
    taken = [gpu.import_array(each, writable=True) for each in (x, y)]
    twice(*taken, x.numel())()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)


def test_a_kernel_waits_its_turn_on_torchs_streams(gpu, torch, twice) -> None:
    x = torch.zeros(1 << 22, device="cuda")
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    taken = [gpu.import_array(each, writable=True) for each in (x, y)]
    launch = twice(*taken, x.numel(), stream)
    with torch.cuda.stream(stream):
        for step in range(20):
            x.fill_(step)
            launch()
            assert torch.all(y == 2 * step).item()


def test_tensors_that_cannot_be_used_are_refused_by_name(gpu, torch) -> None:
    for tensor, words in (
        (torch.zeros(4), r"host memory.*tensor\.cuda\(\)"),
        (torch.zeros(4).pin_memory(), "host memory"),
        (torch.zeros((4, 4), device="cuda").T, r"contiguous.*tensor\.contiguous\(\)"),
        (torch.zeros((4, 4), device="cuda")[:, ::2], "contiguous"),
        (Exporter(torch.zeros(4)), "host memory"),
        (Exporter(torch.zeros((4, 4), device="cuda").T), "contiguous"),
    ):
        with pytest.raises(XpuLaunchException, match=words):
            gpu.import_array(tensor, writable=False)
    if torch.cuda.device_count() > 1:
        with pytest.raises(XpuLaunchException, match="number 1"):
            gpu.import_array(torch.zeros(4, device="cuda:1"), writable=False)


def test_a_tensor_taken_through_dlpack_stays_alive_and_goes(gpu, torch) -> None:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    taken = gpu.import_array(Exporter(torch.ones(1 << 20, device="cuda")), writable=True)
    assert torch.cuda.memory_allocated() - before >= 4 << 20
    assert (gpu.to_host(taken) == 1).all()
    del taken
    assert torch.cuda.memory_allocated() == before


def test_a_launch_is_captured_and_replayed_by_torch(gpu, torch, twice, ptx, tmp_path) -> None:
    fresh = tmp_path / "fresh.ptx"
    fresh.write_bytes(ptx.read_bytes() + b"// not loaded yet\n")
    x, y = (torch.zeros(1000, device="cuda") for _ in range(2))
    taken = [gpu.import_array(each, writable=True) for each in (x, y)]
    graph, seen = torch.cuda.CUDAGraph(), []
    assert not gpu.is_capturing(torch.cuda.current_stream())
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        seen.append(gpu.is_capturing(stream))
        # None of these belongs to the capture, and none may end it.
        gpu.load(fresh, "bounded")
        kept = gpu.allocate(3 << 20)
        gpu.import_array(x, writable=False)
        twice(*taken, 1000, stream)()
    assert seen == [True]
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        assert torch.all(y == 2 * value).item()
    assert kept.nbytes == 3 << 20


WAITING = """
import sys, torch
from pathlib import Path
from xpu.errors import XpuLaunchException
from xpu_backend_cuda.device import CudaDevice
device = CudaDevice(0)
x = torch.zeros(10, device="cuda")
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.add_(1)
        try:
            device.synchronize()
        except XpuLaunchException as error:
            print(error)
except RuntimeError:
    pass  # torch says that its capture was spoilt
device.synchronize()
assert (device.to_host(device.allocate(16, poisoned=True)) == 255).all()
print("end")
"""


def test_waiting_during_a_capture_is_refused_by_name(gpu, torch) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *refused, end = done.stdout.splitlines()
    assert end == "end"
    assert all("CUDA_ERROR_STREAM_CAPTURE" in each for each in refused), refused
    assert all("being captured" in each for each in refused), refused


def test_an_array_of_cupy_is_taken_where_it_lies(gpu, cupy, twice) -> None:
    x = cupy.arange(10_000, dtype=cupy.float32)
    y = cupy.full_like(x, cupy.nan)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    for value in (x, Exporter(x)):
        taken = gpu.import_array(value, writable=True)
        assert (taken.address, taken.dtype) == (x.data.ptr, "float32")
    result = gpu.import_array(y, writable=True)
    twice(taken, result, x.size, stream)()
    stream.synchronize()
    assert bool((y == 2 * x).all())
    for bad, words in ((x.reshape(100, 100).T, "contiguous"), (x[::2], "contiguous")):
        with pytest.raises(XpuLaunchException, match=words):
            gpu.import_array(bad, writable=False)


def test_an_array_is_taken_in_a_thread_without_a_context(gpu, cupy) -> None:
    x, seen = cupy.zeros(10), []
    thread = threading.Thread(target=lambda: seen.append(gpu.import_array(x, writable=True)))
    thread.start()
    thread.join()
    assert [each.address for each in seen] == [x.data.ptr]


def test_an_array_of_jax_is_read_where_it_lies(gpu, jax, twice) -> None:
    module, device = jax
    x = module.device_put(np.arange(1000, dtype=np.float32), device) + 1
    taken = gpu.import_array(x, writable=False)
    assert taken.address == x.unsafe_buffer_pointer()
    assert (taken.shape, taken.dtype) == ((1000,), "float32")
    y = gpu.allocate(4000, poisoned=True)
    twice(taken, y, 1000)()
    gpu.synchronize()
    assert np.array_equal(gpu.to_host(y).view(np.float32), 2 * np.arange(1, 1001))
    half = module.device_put(np.ones(8), device).astype("bfloat16")
    assert gpu.import_array(half, writable=False).dtype == "bfloat16"
    with pytest.raises(XpuLaunchException, match="read-only"):
        gpu.import_array(x, writable=True)


def test_arrays_of_the_host_are_refused(gpu) -> None:
    with pytest.raises(XpuLaunchException, match="from_host"):
        gpu.import_array(np.zeros(4), writable=False)
    array = gpu.from_host(np.zeros(4))
    assert gpu.import_array(array, writable=True) is array
    part = DeviceArray(array.address + 8, (1,), "float64", array)
    assert gpu.import_array(part, writable=True) is part
