"""Routines of cuBLASLt over a library that multiplies on the host, and the real one's functions."""

# ruff: noqa: N802 - the names are the library's
from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import GEMM_NT_BF16, DeviceArray, Launch
from xpu_backend_cuda import blas, cublaslt
from xpu_backend_cuda.backend import CudaBackend

FLOAT32, BFLOAT16 = 0, 14


@attrs.define
class Matrix:
    """A layout: columns first, `pitch` elements from one to the next."""

    kind: int
    rows: int
    columns: int
    pitch: int

    def read(self, address: int) -> np.ndarray:
        dtype = {FLOAT32: np.float32, BFLOAT16: np.uint16}[self.kind]
        raw = ctypes.c_uint8 * (self.pitch * self.columns * np.dtype(dtype).itemsize)
        values = np.frombuffer(raw.from_address(address), dtype)
        values = values.reshape(self.columns, self.pitch)[:, : self.rows].T
        return values if self.kind == FLOAT32 else (values.astype(np.uint32) << 16).view(np.float32)


class FakeLt(cublaslt.CublasLt):
    """Does what cublasLt.h says of each function, on the streams of a driver over host memory."""

    def __init__(self, driver) -> None:
        self.driver = driver
        self.things: dict[int, object] = {}
        self.wishes: list[dict[int, int]] = []
        self.fails: dict[str, int] = {}
        self.contexts: list[int] = []
        self.workspace_bytes = 96
        self._library = SimpleNamespace(
            cublasLtGetStatusName=lambda status: b"STATUS_%d" % status,
            cublasLtGetVersion=lambda: 131002,
        )

    def function(self, name):
        work = getattr(self, name.removeprefix("cublasLt"))

        def call(*given):
            if status := self.fails.get(name, 0):
                return status
            work(*(getattr(one, "value", one) for one in given))
            return 0

        return call

    def _new(self, place, thing) -> None:
        number = 0x100 + len(self.things) * 8 + 8
        self.things[number] = thing
        ctypes.cast(place, ctypes.POINTER(ctypes.c_void_p))[0] = number

    def Create(self, place):
        self._new(place, ("handle", self.driver.stack[-1]))

    def MatrixLayoutCreate(self, place, kind, rows, columns, pitch):
        self._new(place, Matrix(kind, rows, columns, pitch))

    def MatmulDescCreate(self, place, compute, scale):
        assert (compute, scale) == (68, FLOAT32)
        self._new(place, {})

    def MatmulPreferenceCreate(self, place):
        self._new(place, {})

    def MatmulDescSetAttribute(self, of, name, place, nbytes):
        kinds = {4: ctypes.c_uint32, 8: ctypes.c_uint64}
        self.things[of][name] = ctypes.cast(place, ctypes.POINTER(kinds[nbytes]))[0]

    MatmulPreferenceSetAttribute = MatmulDescSetAttribute

    def Destroy(self, thing):
        del self.things[thing]

    MatmulDescDestroy = MatrixLayoutDestroy = MatmulPreferenceDestroy = Destroy

    def MatmulAlgoGetHeuristic(self, handle, product, a, b, c, d, wish, most, place, count):
        assert (c, most) == (d, 1)
        self.wishes.append(self.things[wish])
        found = ctypes.cast(place, ctypes.POINTER(cublaslt.Heuristic))[0]
        found.algorithm[0], found.workspace_bytes = 77, self.workspace_bytes
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int))[0] = 1

    def Matmul(self, handle, product, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, *rest):
        workspace, nbytes, stream = rest
        assert self.things[handle] == ("handle", self.driver.stack[-1])
        self.contexts.append(self.driver.stack[-1])
        assert (c, lc, nbytes) == (d, ld, self.workspace_bytes)
        assert bool(workspace) == bool(nbytes)
        assert ctypes.c_uint64.from_address(algorithm).value == 77
        assert self.things[product] == {3: 1}
        scales = [ctypes.c_float.from_address(one).value for one in (alpha, beta)]
        assert scales == [1, 0]
        la, lb, ld = (self.things[one] for one in (la, lb, ld))

        def run() -> None:
            ld.read(d)[...] = la.read(a).T.astype(np.float64) @ lb.read(b)

        self.driver._queue(stream or 0, ("do", run))


@pytest.fixture
def lt(fake, monkeypatch) -> FakeLt:
    made = FakeLt(fake)
    for each in (blas, cublaslt):
        monkeypatch.setattr(each, "find_cublaslt", lambda: made)
    return made


def bfloat16(values: np.ndarray) -> np.ndarray:
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Product:
    """Arrays of one product on a device, and its right result."""

    def __init__(self, device, m: int, n: int, k: int, shift: int = 0) -> None:
        rng = np.random.default_rng()
        weights, x = (bfloat16(rng.standard_normal((rows, k), dtype=np.float32)) for rows in (n, m))
        self.sizes, self._device = (m, n, k), device
        room = device.allocate(4 * m * n + 256, poisoned=True)
        y = DeviceArray(room.address + shift, (4 * m * n,), "uint8", room)
        self.arrays = [device.from_host(weights), device.from_host(x), y]
        self.exact = widened(x) @ widened(weights).T

    def pack(self, stream=None):
        routine = self._device.routine(GEMM_NT_BF16)
        return self._device.launcher(routine, Launch(), self.arrays, self.sizes, stream)

    def is_right(self) -> bool:
        self._device.synchronize()
        y = self._device.to_host(self.arrays[2]).view(np.float32).reshape(self.exact.shape)
        return bool(np.allclose(y, self.exact, rtol=1e-5, atol=1e-3))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 17, 33), (64, 48, 256)])
def test_a_product_is_what_the_routine_promises(lt, opened, sizes) -> None:
    product = Product(opened, *sizes)
    assert not product.is_right()
    product.pack()()
    assert product.is_right()


def test_the_library_is_told_what_addresses_are_multiples_of(lt, opened) -> None:
    for shift in (0, 4, 24):
        product = Product(opened, 4, 4, 8, shift)
        product.pack()()
        assert product.is_right()
        wish = lt.wishes[-1]
        assert wish[1] == 32 << 20
        weights, x, y = (array.address for array in product.arrays)
        for name, address in ((5, weights), (6, x), (7, y), (8, y)):
            assert address % wish[name] == 0
            assert wish[name] == 256 or address % (2 * wish[name])


def test_an_algorithm_is_chosen_once_and_nothing_runs_before_the_call(lt, fake, opened) -> None:
    product = Product(opened, 5, 6, 7)
    launches = [product.pack() for _ in range(3)]
    assert len(lt.wishes) == 1
    assert len(lt.contexts) == 1, "the call is rehearsed once"
    assert not fake.graphs
    assert not product.is_right()
    launches[1]()
    assert product.is_right()


def test_a_workspace_is_the_launchs_own(lt, opened) -> None:
    product = Product(opened, 5, 6, 7)
    first, second = product.pack(), product.pack()
    (one,), (other,) = first.memory, second.memory
    assert one.nbytes == 96
    assert one.address != other.address
    end = weakref.ref(one.owner)
    del first, one
    gc.collect()
    assert end() is None
    lt.workspace_bytes = 0
    assert Product(opened, 1, 6, 7).pack().memory == ()


def test_a_launch_keeps_no_array(lt, opened) -> None:
    product = Product(opened, 5, 6, 7)
    ends = [weakref.ref(array.owner) for array in product.arrays[:2]]
    launch = product.pack()
    del product
    gc.collect()
    assert [end() for end in ends] == [None, None]
    assert (launch.stream, launch.is_recordable) == (0, False)


def test_a_call_moves_to_other_arrays_and_to_another_algorithm_with_their_alignment(
    lt, opened
) -> None:
    products = [Product(opened, 5, 6, 7, shift) for shift in (0, 4, 4, 0, 24)]
    launch = products[0].pack()
    for product in (*products[1:], *products[1:]):
        addresses = [array.address for array in product.arrays]
        launch.addresses[:] = addresses
        launch()
        assert product.is_right()
        multiples = [min(at & -at, 256) for at in addresses]
        assert multiples in [[wish[name] for name in (5, 6, 7)] for wish in lt.wishes]
    assert not products[0].is_right()
    planned = len(lt.wishes)
    launch.addresses[:] = [array.address for array in products[0].arrays]
    launch()
    assert products[0].is_right()
    assert len(lt.wishes) == planned


def test_a_call_goes_to_its_stream_and_can_be_captured(lt, fake, opened) -> None:
    product = Product(opened, 5, 6, 7)
    launch = product.pack(stream=77)
    assert launch.stream == 77
    fake.cuStreamBeginCapture(77, "RELAXED")
    launch()
    _, graph = fake.cuStreamEndCapture(77)
    assert not product.is_right()
    _, executable = fake.cuGraphInstantiate(graph, 0)
    fake.cuGraphLaunch(executable, 77)
    assert product.is_right()


@pytest.mark.parametrize("found", [[], [0x1001], [0x1000]])
def test_the_devices_context_is_current_and_the_thread_is_left_as_it_was(
    lt, fake, opened, found
) -> None:
    product = Product(opened, 5, 6, 7)
    launch = product.pack()
    seen = []

    def call() -> None:
        fake.stack[:] = found
        launch()
        seen.append(list(fake.stack))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert lt.contexts[-1] == 0x1000
    assert seen == [found]
    assert product.is_right()


def test_what_the_library_refuses_is_named(lt, opened) -> None:
    product = Product(opened, 5, 6, 7)
    launch = product.pack()
    lt.fails["cublasLtMatmul"] = 13
    with pytest.raises(XpuLaunchException, match=r"gemm_nt_bf16 cannot be launched: STATUS_13"):
        launch()
    lt.fails = {"cublasLtMatmulAlgoGetHeuristic": 15}
    with pytest.raises(XpuLaunchException, match=r"no algorithm for m=3, n=6, k=7: STATUS_15"):
        Product(opened, 3, 6, 7).pack()
    routine = opened.routine(GEMM_NT_BF16)
    with pytest.raises(XpuLaunchException, match=r"3 arrays.*given 2 and 3"):
        opened.launcher(routine, Launch(), product.arrays[:2], (5, 6, 7))


def test_a_rehearsal_that_is_refused_leaves_nothing(lt, fake, opened) -> None:
    lt.fails["cublasLtMatmul"] = 15
    with pytest.raises(XpuLaunchException, match="STATUS_15"):
        Product(opened, 5, 6, 7).pack()
    assert not fake.capturing
    assert not fake.graphs
    lt.fails.clear()
    Product(opened, 5, 6, 7).pack()


def test_without_rows_nothing_is_launched(lt, fake, opened) -> None:
    launch = Product(opened, 0, 6, 7).pack(stream=5)
    launch()
    assert launch.stream == 5
    assert not lt.wishes


def test_all_is_given_back(lt, opened) -> None:
    product = Product(opened, 5, 6, 7)
    launch = product.pack()
    opened.close()
    gc.collect()
    assert lt.things, "a launch that somebody holds keeps what it needs"
    del launch
    gc.collect()
    assert not lt.things


def test_a_routine_of_another_device_is_refused(lt, fake, opened) -> None:
    from xpu_backend_cuda.device import CudaDevice

    other = CudaDevice(1)
    product = Product(opened, 5, 6, 7)
    with pytest.raises(XpuLaunchException, match="was not loaded on this device"):
        other.launcher(opened.routine(GEMM_NT_BF16), Launch(), product.arrays, product.sizes)
    other.close()


def test_a_routine_that_there_is_not_is_refused_with_those_that_there_are(lt, opened) -> None:
    assert CudaBackend().library(GEMM_NT_BF16) == "cublaslt 13.10.2"
    with pytest.raises(XpuBuildError, match=r"no routine 'fft'.*it has: gemm_nt_bf16"):
        CudaBackend().library("fft")
    with pytest.raises(XpuLaunchException, match=r"no routine 'fft'"):
        opened.routine("fft")


def test_a_library_that_is_missing_says_what_to_install(fake, opened, monkeypatch) -> None:
    from cuda import pathfinder

    def missing(name):
        raise pathfinder.DynamicLibNotFoundError("nowhere\nat all")

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", missing)
    cublaslt.find_cublaslt.cache_clear()
    said = r"there is no cuBLASLt: nowhere; pip install 'xpu-orchestrator\[cuda-blas\]'"
    with pytest.raises(XpuBuildError, match=said):
        CudaBackend().library(GEMM_NT_BF16)
    with pytest.raises(XpuLaunchException, match=said):
        opened.routine(GEMM_NT_BF16)


def test_the_real_library_has_what_is_called_and_takes_what_it_is_given() -> None:
    try:
        lt = cublaslt.find_cublaslt()
    except XpuBuildError as error:
        pytest.skip(str(error))
    assert int(lt.version().split(".")[0]) >= 12
    product = lt.made("cublasLtMatmulDescCreate", 68, FLOAT32)
    blas._set(lt, "MatmulDesc", product, 3, ctypes.c_int32(1))
    layout = lt.made("cublasLtMatrixLayoutCreate", BFLOAT16, 256, 16, 256)
    wish = lt.made("cublasLtMatmulPreferenceCreate")
    blas._set(lt, "MatmulPreference", wish, 1, ctypes.c_uint64(1 << 20))
    for name in (5, 6, 7, 8):
        blas._set(lt, "MatmulPreference", wish, name, ctypes.c_uint32(16))
    with pytest.raises(XpuLaunchException, match="CUBLAS_STATUS_INVALID_VALUE"):
        blas._set(lt, "MatmulPreference", wish, 999, ctypes.c_uint32(16))
    lt.function("cublasLtMatmulPreferenceDestroy")(wish)
    blas._destroy(lt, product, [layout])
