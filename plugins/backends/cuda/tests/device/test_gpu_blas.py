"""On a real GPU: the library's products are right, wherever and however they are called."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from xpu.errors import XpuBuildError
from xpu.spec import GEMM_NT_BF16, DeviceArray, Launch
from xpu_backend_cuda.backend import CudaBackend
from xpu_backend_cuda.device import CudaDevice
from xpu_backend_cuda.driver import checked, device_count


@pytest.fixture(autouse=True)
def installed(gpu) -> None:
    try:
        CudaBackend().library(GEMM_NT_BF16)
    except XpuBuildError as error:
        pytest.skip(str(error))


class Product:
    """Random matrices on a device, room for the result at an odd place, and what is right."""

    def __init__(self, device, m: int, n: int, k: int, shift: int = 0) -> None:
        rng = np.random.default_rng()
        weights, x = (
            (rng.standard_normal((rows, k), dtype=np.float32).view(np.uint32) >> 16)
            for rows in (n, m)
        )
        self.device, self.sizes = device, (m, n, k)
        self._room = device.allocate(4 * m * n + 256, poisoned=True)
        self._y = DeviceArray(self._room.address + shift, (m, n), "float32", self._room)
        given = (each.astype(np.uint16) for each in (weights, x))
        self._arrays = [*map(device.from_host, given), self._y]
        weights, x = ((each << 16).view(np.float32).astype(np.float64) for each in (weights, x))
        self._exact, self._scale = x @ weights.T, np.sqrt(k)

    def pack(self, stream=None):
        routine = self.device.routine(GEMM_NT_BF16)
        return self.device.launcher(routine, Launch(), self._arrays, self.sizes, stream)

    def check(self) -> None:
        """Compare, see that nothing else was written, and poison again."""
        self.device.synchronize()
        error = np.abs(self.device.to_host(self._y) - self._exact).max() / self._scale
        assert error < 1e-4, error
        before = self._y.address - self._room.address
        room = self.device.to_host(self._room)
        assert (room[:before] == 0xFF).all()
        assert (room[before + self._y.nbytes :] == 0xFF).all()
        self.device.poison(self._room)


@pytest.mark.parametrize("shift", [0, 4, 16])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 256), (3, 17, 33), (7, 83, 512), (129, 257, 1280), (512, 1024, 4096)]
)
def test_products_are_right_at_any_size_and_place(gpu, sizes, shift) -> None:
    product = Product(gpu, *sizes, shift)
    launch = product.pack()
    for _ in range(2):
        launch()
        product.check()


def test_the_first_call_may_be_captured_and_replayed(gpu) -> None:
    product = Product(gpu, 65, 130, 768)
    with gpu.context.current() as cu:
        stream = checked(cu.cuStreamCreate(1), "a stream")
        # As strict as torch's captures are: in all threads, nothing unsafe.
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        checked(cu.cuThreadExchangeStreamCaptureMode(mode), "a mode")
        launch = product.pack(int(stream))
        checked(cu.cuStreamBeginCapture(stream, mode), "a capture")
        launch()
        graph = checked(cu.cuStreamEndCapture(stream), "a capture")
        executable = checked(cu.cuGraphInstantiate(graph, 0), "a graph")
    for _ in range(3):
        with gpu.context.current() as cu:
            checked(cu.cuGraphLaunch(executable, stream), "a replay")
        product.check()
    with gpu.context.current() as cu:
        cu.cuGraphExecDestroy(executable)
        cu.cuGraphDestroy(graph)
        cu.cuStreamDestroy(stream)


def test_the_clock_replays_products(gpu) -> None:
    product = Product(gpu, 256, 512, 2048)
    clock = gpu.timer()
    launches = [product.pack(clock.stream) for _ in range(4)]
    took_ns = clock.bracket_ns(launches)
    assert took_ns > 0
    assert clock.describe()["not_captured"] == 0
    product.check()


def test_the_same_sizes_give_the_same_bits(gpu) -> None:
    product = Product(gpu, 33, 65, 14336)
    results = []
    for _ in range(5):
        product.pack()()
        gpu.synchronize()
        results.append(gpu.to_host(product._y).tobytes())
    assert len(set(results)) == 1


def test_products_are_made_from_many_threads(gpu) -> None:
    products = [Product(gpu, 40 + at, 64, 512) for at in range(8)]
    faults = []

    def work(product: Product) -> None:
        try:
            launch = product.pack()
            for _ in range(50):
                launch()
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(product,)) for product in products]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    for product in products:
        product.check()


def test_a_second_device_has_a_library_of_its_own(gpu) -> None:
    if device_count() < 2:
        pytest.skip("there is one device")
    other = CudaDevice(1)
    products = [Product(device, 65, 33, 512) for device in (gpu, other)]
    launches = [product.pack() for product in products]
    for _ in range(2):
        for launch in launches:
            launch()
        for product in products:
            product.check()
    other.close()
