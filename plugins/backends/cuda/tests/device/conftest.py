"""A driver over host memory with a clock of its own, and what the tests on a real GPU stand on.

The driver stands for ``cuda.bindings.driver``: what the device half makes of its answers, and
in which order it calls, can be seen without a GPU. `test_cuda_bindings` holds those calls to
the real bindings.
"""

# ruff: noqa: N802, N815 - the names are the driver's
from __future__ import annotations

import ctypes
import enum
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

HOLD, NOTHING = "xpu_hold", "xpu_nothing"


class Code(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906


class Names:
    """Constants by name: each is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


@attrs.define(eq=False)
class Function:
    name: str
    attributes: dict[str, int]


@attrs.define
class Kernel:
    """What a kernel does with its parameters, and how long that takes."""

    run: Callable[..., None]
    parameters: int
    took_ns: float = 3000.0


FACTS = {
    "MULTIPROCESSOR_COUNT": 132,
    "WARP_SIZE": 32,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "L2_CACHE_SIZE": 50 << 20,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "COMPUTE_CAPABILITY_MAJOR": 9,
}


class FakeDriver:
    """Two devices; streams run when somebody waits for them."""

    def __init__(self) -> None:
        for name in (
            "CUdevice_attribute",
            "CUfunction_attribute",
            "CUpointer_attribute",
            "CUstreamCaptureMode",
            "CUstreamCaptureStatus",
        ):
            setattr(self, name, Names())
        self.calls: list[str] = []
        self.fails: dict[str, int] = {}
        self.facts = dict(FACTS)
        self.kernels: dict[str, Kernel] = {}
        self.memory: dict[int, Any] = {}
        self.places: dict[int, tuple[int, int]] = {}
        self.most_bytes = 1 << 28
        self.modules = 0
        self.graphs: dict[int, list[Any]] = {}
        self.executables: dict[int, list[Any]] = {}
        self.retained = [0, 0]
        self.host_ns = 1e9
        self.call_ns = 5000.0
        self.event_rate = 1.0
        self.queues: dict[int, list[Any]] = defaultdict(list)
        self.free_ns: dict[int, float] = defaultdict(float)
        self.events: dict[int, float] = {}
        self.capturing: dict[int, list[Any]] = {}
        self.threads = threading.local()
        self._last = 1 << 20

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not name.startswith("cu"):
            return found

        def call(*given: Any) -> Any:
            self.calls.append(name)
            self.host_ns += self.call_ns
            code = self.fails.get(name, 0)
            result = (Code(code), None) if code else found(*given)
            return result if isinstance(result, tuple) else (Code(0), result)

        return call

    def _new(self) -> int:
        self._last += 4096
        return self._last

    # ---- start and facts ----
    def cuInit(self, flags):
        return (Code(0),)

    def cuGetErrorString(self, code):
        return f"words of {int(code)}".encode()

    def cuDriverGetVersion(self):
        return 13000

    def cuDeviceGetCount(self):
        return 2

    def cuDeviceGet(self, index):
        return index

    def cuDeviceGetName(self, length, device):
        return f"Fake {device}".encode().ljust(length, b"\0")

    def cuDeviceGetUuid(self, device):
        return SimpleNamespace(bytes=bytes([device + 1]) * 16)

    def cuDeviceGetPCIBusId(self, length, device):
        return f"0000:0{device}:00.0".encode()

    def cuDeviceTotalMem(self, device):
        return 1 << 30

    def cuDeviceGetAttribute(self, attribute, device):
        return self.facts.get(attribute.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    # ---- contexts ----
    def cuDevicePrimaryCtxRetain(self, device):
        self.retained[device] += 1
        return 0x1000 + device

    def cuDevicePrimaryCtxRelease(self, device):
        self.retained[device] -= 1
        return (Code(0),)

    @property
    def stack(self) -> list[int]:
        if not hasattr(self.threads, "stack"):
            self.threads.stack = []
        return self.threads.stack

    def cuCtxPushCurrent(self, context):
        self.stack.append(context)
        return (Code(0),)

    def cuCtxPopCurrent(self):
        return self.stack.pop()

    def cuCtxGetCurrent(self):
        return self.stack[-1] if self.stack else 0

    def cuCtxSetCurrent(self, context):
        self.stack[-1:] = [context]
        return (Code(0),)

    def cuCtxSynchronize(self):
        for stream in list(self.queues):
            self.play(stream)
        return (Code(0),)

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before = getattr(self.threads, "mode", "GLOBAL")
        self.threads.mode = mode
        return before

    # ---- memory ----
    def cuMemAlloc(self, nbytes):
        if nbytes > self.most_bytes - sum(map(len, self.memory.values())):
            return Code(2), None
        memory = (ctypes.c_uint8 * nbytes)()
        self.memory[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def cuMemFree(self, address):
        del self.memory[address]
        return (Code(0),)

    def cuMemHostAlloc(self, nbytes, flags):
        return self.cuMemAlloc(nbytes)[1]

    def cuMemFreeHost(self, address):
        return self.cuMemFree(address)

    def cuMemHostGetDevicePointer(self, address, flags):
        return address

    def cuMemcpyHtoD(self, to, source, nbytes):
        self.cuCtxSynchronize()
        ctypes.memmove(to, source, nbytes)
        return (Code(0),)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemcpyDtoDAsync(self, to, source, nbytes, stream):
        return self._queue(stream, ("do", lambda: ctypes.memmove(to, source, nbytes)))

    def cuMemsetD8Async(self, to, value, nbytes, stream):
        return self._queue(stream, ("do", lambda: ctypes.memset(to, value, nbytes)))

    def cuPointerGetAttribute(self, attribute, address):
        kind, number = self.places.get(address, (0, 0))
        if not kind:
            return Code(1), None
        return kind if attribute.endswith("MEMORY_TYPE") else number

    # ---- code ----
    def cuModuleLoadData(self, image):
        if not image.startswith((b"code", b"\n.version", b"\x7fELF")):
            return Code(200), None
        self.modules += 1
        return self._new()

    def cuModuleUnload(self, module):
        self.modules -= 1
        return (Code(0),)

    def cuModuleGetFunction(self, module, name):
        if name.decode() not in self.kernels:
            return Code(500), None
        shape = {"MAX_THREADS_PER_BLOCK": 256, "NUM_REGS": 40, "SHARED_SIZE_BYTES": 1024}
        return Function(name.decode(), {**shape, "MAX_DYNAMIC_SHARED_SIZE_BYTES": 48128})

    def cuFuncLoad(self, function):
        return (Code(0),)

    def cuFuncGetAttribute(self, attribute, function):
        return function.attributes.get(attribute.removeprefix("CU_FUNC_ATTRIBUTE_"), 0)

    def cuFuncSetAttribute(self, function, attribute, value):
        function.attributes[attribute.removeprefix("CU_FUNC_ATTRIBUTE_")] = value
        return (Code(0),)

    def cuFuncGetParamInfo(self, function, index):
        if index >= self.kernels[function.name].parameters:
            return Code(1), None, None
        return Code(0), 8 * index, 8

    # ---- streams, events, graphs ----
    def cuStreamCreate(self, flags):
        return self._new()

    def cuStreamDestroy(self, stream):
        return (Code(0),)

    def cuStreamSynchronize(self, stream):
        if int(stream) in self.capturing:
            return (Code(900),)
        self.play(int(stream))
        return (Code(0),)

    def cuStreamWaitEvent(self, stream, event, flags):
        return self._queue(stream, ("wait", event))

    def cuStreamIsCapturing(self, stream):
        status = "ACTIVE" if int(stream) in self.capturing else "NONE"
        return f"CU_STREAM_CAPTURE_STATUS_{status}"

    def cuStreamBeginCapture(self, stream, mode):
        self.capturing[int(stream)] = []
        return (Code(0),)

    def cuStreamEndCapture(self, stream):
        graph = self._new()
        self.graphs[graph] = self.capturing.pop(int(stream))
        return graph

    def cuGraphGetNodes(self, graph, count):
        return Code(0), [], len(self.graphs[graph])

    def cuGraphInstantiate(self, graph, flags):
        executable = self._new()
        self.executables[executable] = self.graphs[graph]
        return executable

    def cuGraphUpload(self, executable, stream):
        assert executable in self.executables
        return (Code(0),)

    def cuGraphDestroy(self, graph):
        del self.graphs[graph]
        return (Code(0),)

    def cuGraphExecDestroy(self, executable):
        del self.executables[executable]
        return (Code(0),)

    def cuGraphLaunch(self, executable, stream):
        for item in self.executables[executable]:
            self._queue(stream, item)
        return (Code(0),)

    def cuEventCreate(self, flags):
        return self._new()

    def cuEventDestroy(self, event):
        self.events.pop(event, None)
        return (Code(0),)

    def cuEventRecord(self, event, stream):
        return self._queue(stream, ("event", event))

    def cuEventRecordWithFlags(self, event, stream, flags):
        return self._queue(stream, ("event", event))

    def cuEventSynchronize(self, event):
        return self.cuCtxSynchronize()

    def cuEventElapsedTime(self, start, end):
        return (self.events[end] - self.events[start]) * self.event_rate / 1e6

    def cuLaunchKernel(self, function, *rest):
        *_, stream, pointers, _ = rest
        if not self.stack:
            return (Code(201),)
        if self.stack[-1] not in (0x1000, 0x1001):
            return (Code(400),)
        count = self.kernels[function.name].parameters
        places = (ctypes.c_int64 * count).from_address(pointers) if count else ()
        values = [ctypes.c_int64.from_address(place).value for place in places]
        return self._queue(stream, ("kernel", function.name, rest[:7], values))

    def _queue(self, stream, item):
        stream = int(stream)
        if stream in self.capturing:
            self.capturing[stream].append(item)
        else:
            self.queues[stream].append((self.host_ns, item))
        return (Code(0),)

    def play(self, stream: int) -> None:
        """Run what is queued on a stream, and let the host wait for it."""
        queue, self.queues[stream] = self.queues[stream], []
        for queued_ns, (kind, *what) in queue:
            now = max(self.free_ns[stream], queued_ns)
            if kind == "event":
                self.events[what[0]] = now
            elif kind == "wait":
                now = max(now, self.events.get(what[0], 0.0))
            elif kind == "do":
                what[0]()
            elif what[0] == HOLD:
                now = self._held(now, what[2])
            else:
                kernel = self.kernels[what[0]]
                kernel.run(*what[2])
                now += kernel.took_ns
            self.free_ns[stream] = now
        self.host_ns = max(self.host_ns, self.free_ns[stream])

    def _held(self, now: float, values: list[int]) -> float:
        flag, turn, limit_ns, late = values
        is_open = ctypes.c_uint64.from_address(flag).value >= turn
        if is_open and self.host_ns - now <= limit_ns:
            return max(now, self.host_ns)
        ctypes.c_uint64.from_address(late).value = turn
        return now + limit_ns


def copy(source: int, to: int, nbytes: int) -> None:
    ctypes.memmove(to, source, nbytes)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Put a driver in place that has a kernel ``copy`` and no management library."""
    from xpu_backend_cuda import driver, nvml, parts

    made = FakeDriver()
    made.kernels = {"copy": Kernel(copy, 3), HOLD: Kernel(copy, 4)}
    made.kernels[NOTHING] = Kernel(lambda: None, 0, took_ns=1000.0)
    monkeypatch.setitem(sys.modules, driver.BINDINGS, made)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(driver, "_missing_driver", lambda: "")
    monkeypatch.setattr(driver, "_has_bindings", lambda: True)
    host = SimpleNamespace(perf_counter_ns=lambda: int(made.host_ns))
    monkeypatch.setattr(parts, "time", host)
    nvml._library.cache_clear()
    yield made
    nvml._library.cache_clear()


@pytest.fixture
def opened(fake: FakeDriver) -> Iterator[Any]:
    """Open the first device of the driver over host memory."""
    from xpu_backend_cuda.device import CudaDevice

    device = CudaDevice(0)
    yield device
    device.close()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a file with code of that driver's."""
    path = tmp_path / "code"
    path.write_bytes(b"code")
    return path


@pytest.fixture(scope="session")
def gpu() -> Iterator[Any]:
    """Open the first real GPU; tests that need it are skipped where there is none."""
    from xpu_backend_cuda.driver import availability

    state = availability()
    if not state.is_available:
        pytest.skip(f"no GPU here: {state.reason}; {state.fix}")
    from xpu_backend_cuda.device import CudaDevice

    device = CudaDevice(0)
    yield device
    device.close()


@pytest.fixture(scope="session")
def ptx() -> Path:
    """Return the kernels of the tests on a real GPU."""
    return Path(__file__).with_name("gpu_kernels.ptx")


@pytest.fixture
def twice(gpu: Any, ptx: Path) -> Callable[..., Any]:
    """Pack ``y = 2 x`` on float32 arrays of the device."""
    from xpu.spec import Launch

    def pack(x: Any, y: Any, n: int, stream: Any = None, blocks: int = 256) -> Callable[[], None]:
        kernel = gpu.load(ptx, "twice")
        launch = Launch((blocks, 1, 1), (256, 1, 1))
        packed: Callable[[], None] = gpu.launcher(kernel, launch, [x, y], [n], stream)
        return packed

    return pack
