"""What is this backend's own: builds under a deadline, binaries, memory, the clock, its kernels."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyopencl as cl
import pytest
from xpu_backend_opencl import driver
from xpu_backend_opencl.backend import OpenClBackend
from xpu_backend_opencl.compiler import TARGET
from xpu_backend_opencl.device import OpenClDevice
from xpu_backend_opencl.memory import HostMemory, OwnMemory
from xpu_backend_opencl.sources import qmatvec
from xpu_backend_opencl.steady import steady
from xpu_backend_opencl.timer import EventTimer

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.model import Problem
from xpu.spec import CompiledCode, DeviceArray, KernelUnit, Launch
from xpu_family_kquant import reference
from xpu_family_kquant.design import QMatVec

SCALE = "kernel void XPU_ENTRY(global float *y, long n) { y[get_global_id(0)] *= XPU_FACTOR; }"
UNIT = KernelUnit("toy.scale", "scale", SCALE, {}, {"XPU_FACTOR": "3"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[KernelUnit], Path]:
    """Compile a unit, once."""
    known: dict[str, Path] = {}

    def build(unit: KernelUnit) -> Path:
        if str(unit) not in known:
            (code,) = OpenClBackend().compiler().compile([unit], TARGET, deadline_s=60)
            assert isinstance(code, CompiledCode), str(code)
            known[str(unit)] = tmp_path_factory.mktemp("built") / unit.entry
            known[str(unit)].write_bytes(code.code)
        return known[str(unit)]

    return build


@pytest.fixture(scope="module")
def scale(built: Callable[[KernelUnit], Path]) -> Path:
    return built(UNIT)


@pytest.fixture(scope="module", params=[HostMemory, OwnMemory])
def device(request: pytest.FixtureRequest) -> Iterator[OpenClDevice]:
    """The device with host memory in place, and as one that has memory of its own."""
    opened = OpenClDevice(driver.devices()[0], request.param)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def host_device() -> Iterator[OpenClDevice]:
    opened = OpenClBackend().open()
    assert isinstance(opened, OpenClDevice)
    yield opened
    opened.close()


def test_what_does_not_build_is_a_value_and_names_the_line() -> None:
    bad = attrs.evolve(UNIT, kernel="toy.bad", text="kernel void XPU_ENTRY() { nope; }")
    results = OpenClBackend().compiler().compile([bad, UNIT], TARGET, deadline_s=60)
    assert [type(result) for result in results] == [XpuBuildError, CompiledCode]
    assert "toy.bad" in str(results[0])
    assert "nope" in str(results[0])


def test_a_kernel_of_another_name_is_a_value_too() -> None:
    other = attrs.evolve(UNIT, text="kernel void other(global float *y, long n) {}")
    (result,) = OpenClBackend().compiler().compile([other], TARGET, deadline_s=60)
    assert isinstance(result, XpuBuildError)


def test_the_deadline_ends_a_build() -> None:
    start = time.monotonic()
    (result,) = OpenClBackend().compiler().compile([UNIT], TARGET, deadline_s=0.05)
    assert isinstance(result, XpuBuildError)
    assert "deadline of 0.05 s" in str(result)
    assert time.monotonic() - start < 5


def test_a_file_outside_the_build_is_refused() -> None:
    for name in ("../x.h", "/x.h"):
        unit = attrs.evolve(UNIT, includes={name: ""})
        (result,) = OpenClBackend().compiler().compile([unit], TARGET, deadline_s=60)
        assert isinstance(result, XpuBuildError)
        assert name in str(result)


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("width", [7, 8])
def test_random_names_leave_no_trace_at_any_bit(shift: int, width: int) -> None:
    def packed(directory: bytes) -> bytes:
        bits = sum(letter << width * at for at, letter in enumerate(directory))
        word = (1 << 4) | bits << (5 + shift) | 0b101 << (5 + shift + width * len(directory))
        return b"\x11\x22" + word.to_bytes(40, "little") + directory + b"\x33"

    first, second = b"/somewhere/xpu-one1", b"/somewhere/xpu-two2"
    assert packed(first) != packed(second)
    one = steady(packed(first), Path(first.decode()))
    assert one == steady(packed(second), Path(second.decode()))
    assert one != steady(packed(second)[:-1] + b"\x34", Path(second.decode()))


def test_a_binary_is_loaded_and_launched(device: OpenClDevice, scale: Path) -> None:
    kernel = device.load(scale, "scale")
    values = np.random.default_rng().standard_normal(256, dtype=np.float32)
    array = device.from_host(values)
    device.launcher(kernel, Launch((4, 1, 1), (64, 1, 1)), (array,), (256,))()
    device.synchronize()
    assert np.array_equal(device.to_host(array), 3 * values)


def test_a_part_of_an_allocation_is_memory_too(device: OpenClDevice, scale: Path) -> None:
    slab = device.allocate(1024, poisoned=True)
    part = DeviceArray(slab.address + 256, (64,), "float32", slab)
    device.copy(device.from_host(np.ones(64, np.float32)), part)
    device.launcher(device.load(scale, "scale"), Launch((1, 1, 1), (64, 1, 1)), (part,), (64,))()
    device.synchronize()
    after = device.to_host(slab)
    assert np.array_equal(after[256:512].view(np.float32), np.full(64, 3, np.float32))
    assert bool((after[:256] == 255).all())
    assert bool((after[512:] == 255).all())


def test_a_part_that_the_driver_refuses_is_named(scale: Path) -> None:
    apart = OpenClDevice(driver.devices()[0], OwnMemory)
    slab = apart.allocate(1024, poisoned=True)
    odd = DeviceArray(slab.address + 4, (64,), "float32", slab)
    kernel, launch = apart.load(scale, "scale"), Launch((1, 1, 1), (64, 1, 1))
    with pytest.raises(XpuLaunchException, match=r"kernel 'scale': .*MISALIGNED"):
        apart.launcher(kernel, launch, (odd,), (64,))
    for refused in (apart.to_host, apart.poison, lambda array: apart.copy(array, array)):
        with pytest.raises(XpuLaunchException, match=r"256 bytes cannot be .*MISALIGNED"):
            refused(odd)
    empty = DeviceArray(slab.address + 4, (0,), "float32", slab)
    apart.launcher(kernel, Launch((0, 1, 1), (64, 1, 1)), (empty,), (0,))()


def test_what_the_host_gives_in_another_order_is_turned(device: OpenClDevice) -> None:
    values = np.arange(12, dtype=">f4").reshape(3, 4)
    for given in (values, values[:, ::2], values.T):
        taken = device.to_host(device.from_host(given))
        assert taken.dtype == np.float32
        assert np.array_equal(taken, given)


def test_memory_that_there_is_not_is_named(device: OpenClDevice) -> None:
    with pytest.raises(XpuLaunchException, match="1125899906842624 bytes cannot be had"):
        device.allocate(1 << 50)


def test_a_grid_of_nothing_launches_nothing(device: OpenClDevice, scale: Path) -> None:
    array = device.from_host(np.ones(64, np.float32))
    device.launcher(device.load(scale, "scale"), Launch((1, 0, 1), (64, 1, 1)), (array,), (64,))()
    assert np.array_equal(device.to_host(array), np.ones(64, np.float32))


def test_what_cannot_be_launched_is_named(device: OpenClDevice, scale: Path) -> None:
    kernel, array = device.load(scale, "scale"), device.allocate(1024)
    too_wide = Launch((1, 1, 1), ((device.facts.max_threads_per_block or 0) + 1, 1, 1))
    with pytest.raises(XpuLaunchException, match="'scale'"):
        device.launcher(kernel, too_wide, (array,), (64,))()
    block = (64, 1, 1)
    for wrong in (Launch((-1, 1, 1), block), Launch(block=(0, 1, 1)), Launch((1, 1, 1), block, -4)):
        with pytest.raises(XpuLaunchException, match="'scale' cannot be launched as"):
            device.launcher(kernel, wrong, (array,), (64,))
    with pytest.raises(XpuLaunchException, match="takes 2 arguments, given 3"):
        device.launcher(kernel, Launch(), (array, array), (64,))
    with pytest.raises(XpuLaunchException, match=r"pyopencl\.CommandQueue"):
        device.launcher(kernel, Launch(), (array,), (64,), stream=7)


def test_a_torn_binary_and_a_missing_kernel_are_named(
    device: OpenClDevice, scale: Path, tmp_path: Path
) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(b"no binary")
    for code, entry in ((torn, "scale"), (scale, "other"), (tmp_path / "gone", "scale")):
        with pytest.raises(XpuLaunchException, match=entry):
            device.load(code, entry)


def test_memory_of_its_own_refuses_the_hosts_by_name() -> None:
    apart = OpenClDevice(driver.devices()[0], OwnMemory)
    with pytest.raises(XpuLaunchException, match="ndarray lives in host memory"):
        apart.import_array(np.ones(3, np.float32), writable=False)
    gone = apart.allocate(64).address
    with pytest.raises(XpuLaunchException, match="no memory of this device"):
        apart.to_host(DeviceArray(gone, (64,), "uint8", None))


def test_the_hosts_arrays_are_used_in_place(host_device: OpenClDevice, scale: Path) -> None:
    class Tensor:
        """An array that offers DLPack and nothing else."""

        def __init__(self, array: Any) -> None:
            self._array = array
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    kernel = host_device.load(scale, "scale")
    for wrap in (lambda array: array, Tensor):
        values = np.ones(64, np.float32)
        taken = host_device.import_array(wrap(values), writable=True)
        assert taken.address == values.ctypes.data
        host_device.launcher(kernel, Launch((1, 1, 1), (64, 1, 1)), (taken,), (64,))()
        assert np.array_equal(values, np.full(64, 3, np.float32))


def test_an_object_of_half_a_protocol_is_no_array(host_device: OpenClDevice) -> None:
    class Half:
        def __dlpack__(self, **_: object) -> object:
            raise AssertionError

    with pytest.raises(XpuLaunchException, match="type Half is no array"):
        host_device.import_array(Half(), writable=False)


def test_a_stream_of_the_callers_is_used(host_device: OpenClDevice, scale: Path) -> None:
    array = host_device.from_host(np.ones(64, np.float32))
    stream = cl.CommandQueue(host_device._context)
    launch = Launch((1, 1, 1), (64, 1, 1))
    host_device.launcher(host_device.load(scale, "scale"), launch, (array,), (64,), stream)()
    stream.finish()
    assert np.array_equal(host_device.to_host(array), np.full(64, 3, np.float32))


def test_the_event_clock_is_calibrated() -> None:
    # On a busy machine the clocks may disagree, and the host's is taken then: not every time.
    for _ in range(5):
        with contextlib.closing(OpenClBackend().open()) as opened:
            timer = opened.timer()
        if isinstance(timer, EventTimer):
            break
    assert isinstance(timer, EventTimer)
    assert 0.5 <= timer.describe()["host_per_event"] <= 2


def test_facts_leave_out_what_is_not_meant(host_device: OpenClDevice) -> None:
    facts = host_device.facts
    assert facts.registers_per_multiprocessor is None
    assert facts.shared_bytes_per_multiprocessor is None
    assert facts.max_grid_x is None
    assert facts.wave_width == driver.devices()[0].native_vector_width_float
    assert facts.further["max_allocation_bytes"] > 0


@pytest.mark.parametrize("weight_format", ["q4_k", "q5_k", "q6_k"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 256), (2, 83, 768)])
def test_the_matvec_is_right(
    device: OpenClDevice,
    built: Callable[[KernelUnit], Path],
    weight_format: str,
    m: int,
    n: int,
    k: int,
) -> None:
    source, preparation = qmatvec(), QMatVec.preparation
    assert source.preparation is not None
    assert source.launch is not None
    assert preparation is not None
    macros = {f"XPU_FORMAT_{weight_format.upper()}": "1", "XPU_THREADS": "16", "XPU_ROWS": "2"}
    prepare, matvec = (
        device.load(built(KernelUnit(name, name, part.text, part.includes, macros)), name)
        for name, part in (("prepare", source.preparation), ("matvec", source))
    )
    rng, constants = np.random.default_rng(), {"format": weight_format}
    raw = reference.random_blocks(weight_format, n, k, rng)
    x = rng.standard_normal((m, k), dtype=np.float32)
    nbytes = preparation.prepared_bytes(raw.shape, constants)
    # Named, for a launch keeps nothing alive.
    given, taken_x = device.from_host(raw), device.from_host(x)
    weights, y = device.allocate(nbytes, poisoned=True), device.allocate(m * n * 4, poisoned=True)
    sizes = preparation.sizes(raw.shape, constants)
    device.launcher(prepare, Launch(), (given, weights), sizes)()
    launch = source.launch({"threads": 16, "rows": 2}, Problem(m=m, n=n, k=k))
    device.launcher(matvec, launch, (weights, taken_x, y), (m, n, k))()
    device.synchronize()
    result = device.to_host(y).view(np.float32).reshape(m, n)
    assert reference.errors(weight_format, raw, x, result).max() < 1e-4
