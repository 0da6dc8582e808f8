"""The device half: facts, memory, launches, threads, processes."""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import numpy as np
import pytest

from xpu.errors import XpuConfigError, XpuLaunchException
from xpu.spec import DeviceArray, Launch
from xpu_backend_emulator import memory
from xpu_backend_emulator.backend import EmulatorBackend
from xpu_backend_emulator.code import array_names

ADD = """
XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y, int64_t n) {
    const int64_t i = xpu::block_x() * XPU_THREADS + xpu::thread();
    if (i < n) y[i] = x[i] + 1.0f;
}
"""


@pytest.fixture
def device():
    return EmulatorBackend().open()


def test_the_generic_part() -> None:
    backend = EmulatorBackend()
    (facts,) = backend.devices()
    assert (facts.backend, facts.name, facts.wave_width) == ("emulator", "emulated part", 32)
    assert facts.max_threads_per_block == 1024
    assert facts.uuid is None
    assert backend.availability().is_available
    assert backend.compiler().native_target() == "wave32"
    assert backend.open().facts == facts


def test_the_width_comes_from_the_class_then_the_environment_then_the_facts(
    monkeypatch, tmp_path: Path
) -> None:
    path = tmp_path / "part.toml"
    path.write_text('name = "Thing 9"\nwave_width = 64\nmultiprocessors = 7\n')
    monkeypatch.setenv("XPU_EMULATOR_FACTS", str(path))
    (facts,) = EmulatorBackend().devices()
    assert (facts.name, facts.wave_width, facts.multiprocessors) == ("emulated Thing 9", 64, 7)
    assert facts.shared_bytes_per_block is None
    assert EmulatorBackend().compiler().native_target() == "wave64"
    monkeypatch.setenv("XPU_EMULATOR_WAVE", "32")
    assert EmulatorBackend().devices()[0].wave_width == 32
    assert EmulatorBackend(64).devices()[0].wave_width == 64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wave_width = 16", "32 or 64"),
        ("wave_widht = 32", "wave_width"),
        ("wave_width = ", "cannot be read"),
        ('wave_width = "many"', "whole number"),
        (None, "cannot be read"),
    ],
)
def test_a_facts_file_that_cannot_be_used(monkeypatch, tmp_path, text, words) -> None:
    path = tmp_path / "part.toml"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("XPU_EMULATOR_FACTS", str(path))
    answer = EmulatorBackend().availability()
    assert not answer.is_available
    assert "XPU_EMULATOR_FACTS" in answer.reason
    assert words in answer.reason
    with pytest.raises(XpuConfigError):
        EmulatorBackend().devices()


@pytest.mark.parametrize("width", ["33", "many", "-32", "0"])
def test_a_width_that_there_is_not(monkeypatch, width) -> None:
    monkeypatch.setenv("XPU_EMULATOR_WAVE", width)
    assert "32 or 64" in EmulatorBackend().availability().reason


def test_there_is_one_device() -> None:
    with pytest.raises(XpuLaunchException, match="number 0"):
        EmulatorBackend().open(1)


def test_the_time_is_the_hosts_and_says_so(device) -> None:
    timer = device.timer()
    assert timer.name == "emulator"
    assert "emulate" in str(timer.describe()["meaning"])
    assert timer.bracket_ns([lambda: threading.Event().wait(0.02)]) > 1e7
    empty_ns = timer.bracket_ns([])
    assert math.isnan(empty_ns) or empty_ns >= 0
    assert device.foreign_load() == 0.0


def test_arrays_are_taken_without_a_copy(load) -> None:
    device, kernel = load(ADD, XPU_THREADS=64)
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)

    class OnlyDlpack:
        def __dlpack__(self, **given):
            return y.__dlpack__()

        def __dlpack_device__(self):
            return y.__dlpack_device__()

    taken = [
        device.import_array(x, writable=False),
        device.import_array(OnlyDlpack(), writable=True),
    ]
    assert taken[1].address == y.ctypes.data
    device.launcher(kernel, Launch((2, 1, 1), (64, 1, 1)), taken, [100])()
    assert (y == x + 1).all()


def test_arrays_that_cannot_be_taken(device) -> None:
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)

    class Elsewhere:
        def __dlpack__(self, **given):
            raise AssertionError

        def __dlpack_device__(self):
            return (2, 0)

    for value, words in [
        (frozen, "not writable"),
        (np.zeros((4, 4))[:, 1], "C-contiguous"),
        (np.zeros(4, ">f4"), "byte order"),
        (odd, "aligned"),
        ([1, 2], "no array"),
        (Elsewhere(), "another device"),
    ]:
        with pytest.raises(XpuLaunchException, match=words):
            device.import_array(value, writable=True)
    assert device.import_array(frozen, writable=False).nbytes == 32


def test_memory(device) -> None:
    array = np.random.default_rng().standard_normal((3, 5)).astype(np.float32)
    taken = device.from_host(array)
    assert (taken.shape, taken.dtype) == ((3, 5), "float32")
    assert (device.to_host(taken) == array).all()
    poisoned = device.allocate(60, poisoned=True)
    assert poisoned.address % 256 == 0
    assert np.isnan(device.to_host(poisoned).view(np.float32)).all()
    device.copy(taken, poisoned)
    assert (device.to_host(poisoned).view(np.float32) == array.ravel()).all()
    device.poison(poisoned)
    assert (device.to_host(poisoned) == 0xFF).all()
    part = DeviceArray(poisoned.address + 8, (4,), "uint8", poisoned)
    device.copy(device.from_host(np.zeros(4, np.uint8)), part)
    notes = memory.written(poisoned)
    assert notes is not None
    assert notes.nonzero()[0].tolist() == [8, 9, 10, 11]
    assert device.allocate(0).nbytes == 0
    with pytest.raises(XpuLaunchException, match="1125899906842624 bytes cannot be had"):
        device.allocate(1 << 50)


def test_a_result_is_cleared_before_each_launch(load, device) -> None:
    _, kernel = load(ADD, XPU_THREADS=64)
    x, y = device.from_host(np.ones(4, np.float32)), device.allocate(32, poisoned=True)
    launch = device.launcher(kernel, Launch(clears_result=True), [x, y], [4])
    for _ in range(2):
        launch()
        result = device.to_host(y).view(np.float32)
        assert result[:4].all()
        assert not result[4:].any()
        assert memory.written(y).all()
        device.poison(y)


def test_the_arguments_of_a_launch_are_checked(load, device) -> None:
    _, kernel = load(ADD, XPU_THREADS=64)
    arrays = [device.from_host(np.zeros(4, np.float32)) for _ in range(3)]

    def error(launch: Launch, buffers, sizes) -> str:
        with pytest.raises(XpuLaunchException) as caught:
            device.launcher(kernel, launch, buffers, sizes)
        return str(caught.value)

    text = error(Launch(), arrays, [4])
    assert "takes 2 arrays and 1 sizes" in text
    assert "xpu::global<const float> x, xpu::global<float> y, int64_t n" in text
    assert "given 2 and 0" in error(Launch(), arrays[:2], [])
    assert "at most 64 threads" in error(Launch((1, 1, 1), (96, 1, 1)), arrays[:2], [4])
    assert "at most 64 threads" in error(Launch((1, 1, 1), (0, 1, 1)), arrays[:2], [4])
    assert "65536 blocks along y" in error(Launch((1, 65536, 1)), arrays[:2], [4])
    assert "-1 blocks along x" in error(Launch((-1, 1, 1)), arrays[:2], [4])
    assert "232449 bytes of shared" in error(Launch(dynamic_shared_bytes=232449), arrays[:2], [4])
    assert "-64 bytes of dynamic" in error(Launch(dynamic_shared_bytes=-64), arrays[:2], [4])
    device.launcher(kernel, Launch((0, 1, 1)), arrays[:2], [4])()
    device.launcher(kernel, Launch((1, 1, 1), (8, 4, 2)), arrays[:2], [4])()
    assert (device.to_host(arrays[1]) == 1).all()


def test_the_limits_are_those_of_the_facts(monkeypatch, tmp_path, load) -> None:
    path = tmp_path / "part.toml"
    path.write_text("max_threads_per_block = 32\nshared_bytes_per_block = 100\nmax_grid_x = 2\n")
    monkeypatch.setenv("XPU_EMULATOR_FACTS", str(path))
    device, kernel = load(ADD, XPU_THREADS=64)
    arrays = [device.allocate(16), device.allocate(16)]
    with pytest.raises(XpuLaunchException, match="64 threads, the part allows 32"):
        device.launcher(kernel, Launch(), arrays, [4])
    device, kernel = load(ADD, XPU_THREADS=32)
    with pytest.raises(XpuLaunchException, match="3 blocks along x, the part allows 2"):
        device.launcher(kernel, Launch((3, 1, 1)), arrays, [4])


def test_code_that_cannot_be_loaded(device, build, tmp_path) -> None:
    (tmp_path / "junk").write_bytes(b"junk")
    for path, entry in [(tmp_path / "junk", "k"), (build(ADD, "wave32"), "other")]:
        with pytest.raises(XpuLaunchException, match="build it again"):
            device.load(path, entry)


def test_names_of_arrays() -> None:
    text = "xpu::global<const xpu::vec<int, 4>> first, xpu::global< float >second, int64_t n"
    assert array_names(text, 2) == ("first", "second")
    assert array_names("", 0) == ()
    assert array_names("input x, xpu::global<int>", 2) == ("x", "array 1")


def test_launches_from_many_threads(load) -> None:
    device, kernel = load(ADD, XPU_THREADS=64)
    sets = [(np.full(100, i, np.float32), np.zeros(100, np.float32)) for i in range(4)]
    launches = []
    for pair in sets:
        taken = [device.import_array(array, writable=True) for array in pair]
        launches.append(device.launcher(kernel, Launch((2, 1, 1)), taken, [100]))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(25):
            list(pool.map(lambda call: call(), launches))
    for x, y in sets:
        assert (y == x + 1).all()


def test_many_launches_and_faults_leak_nothing(load) -> None:
    device, kernel = load(ADD, XPU_THREADS=256)

    def once(n: int) -> None:
        arrays = [device.from_host(np.zeros(1000, np.float32)), device.allocate(4000)]
        call = device.launcher(kernel, Launch((5, 1, 1)), arrays, [n])
        if n <= 1000:
            call()
        else:
            with pytest.raises(XpuLaunchException, match="out-of-bounds"):
                call()

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def maps() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    for n in (1000, 1001):
        once(n)
    before, mapped = resident(), maps()
    for _ in range(300):
        once(1000)
    for _ in range(10):
        once(1001)
    assert resident() - before < 4 << 20
    assert maps() - mapped < 10


def test_a_child_process_can_launch(load) -> None:
    device, kernel = load(ADD, XPU_THREADS=64)
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    taken = [device.import_array(array, writable=True) for array in (x, y)]
    call = device.launcher(kernel, Launch(), taken, [10])
    call()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            y[:] = 0
            call()
            status = 0 if (y == x + 1).all() else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


MEETING = """
XPU_KERNEL(xpu::global<int> y) {
    XPU_SHARED(int, part, XPU_THREADS);
    int sum = 0;
    for (int i = 0; i < 40; ++i) {
        part[xpu::thread()] = i * 1000 + xpu::thread();
        xpu::barrier();
        sum += part[(xpu::thread() + 1) % XPU_THREADS];
        xpu::barrier();
    }
    y[xpu::thread()] = sum;
}
"""


def test_a_child_process_launches_at_the_same_time(load) -> None:
    device, kernel = load(MEETING, XPU_THREADS=256)
    y = np.zeros(256, np.int32)
    call = device.launcher(kernel, Launch(), [device.import_array(y, writable=True)], [])
    call()
    right = y.copy()

    def all_right() -> bool:
        for _ in range(150):
            y[:] = 0
            call()
            if (y != right).any():
                return False
        return True

    child = os.fork()
    if child == 0:
        os._exit(0 if all_right() else 2)
    is_right = all_right()
    assert os.waitpid(child, 0)[1] == 0
    assert is_right


def test_a_stack_that_is_too_small_harms_no_other(load) -> None:
    """Two frames of 40 KiB, of which only the far ends are touched, step over no guard."""
    device, kernel = load(
        """__attribute__((noinline)) static int inner(int v) {
            volatile char far[40000];
            far[0] = (char)v;
            return far[0];
        }
        __attribute__((noinline)) static int outer(int v) {
            volatile char far[40000];
            far[0] = (char)v;
            return inner(v) + far[0];
        }
        XPU_KERNEL(xpu::global<int> y) {
            if (xpu::thread() == 5) y[0] = outer(1);
        }""",
        XPU_THREADS=64,
    )
    call = device.launcher(kernel, Launch(), [device.allocate(256)], [])
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        call()
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


def test_a_smaller_block_than_the_pinned_one_is_launched_and_told(compiler, unit, tmp_path) -> None:
    text = """XPU_KERNEL(xpu::global<int> y) {
        y[xpu::thread()] = xpu::threads() * 1000 + XPU_THREADS;
    }"""
    made = attrs.evolve(unit(text, XPU_THREADS=96), max_threads=96)
    (code,) = compiler.compile([made], "wave32", deadline_s=60)
    assert code.facts.pinned_block == 96
    (tmp_path / "k.so").write_bytes(code.code)
    device = EmulatorBackend(32).open()
    kernel = device.load(tmp_path / "k.so", made.entry)
    y = np.zeros(96, np.int32)
    array = device.import_array(y, writable=True)
    device.launcher(kernel, Launch(block=(64, 1, 1)), [array], [])()
    assert (y == [64096] * 64 + [0] * 32).all()
    device.launcher(kernel, Launch(), [array], [])()
    assert (y == 96096).all()
    with pytest.raises(XpuLaunchException, match="compiled for at most 96 threads"):
        device.launcher(kernel, Launch(block=(128, 1, 1)), [array], [])


def test_fast_math_may_reassociate_and_keeps_nan(compiler, unit, tmp_path) -> None:
    text = """XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y) {
        if (xpu::thread() != 0) return;
        const float a = x[0], b = x[1], c = x[2];
        y[0] = (a + b) - a;
        y[1] = c * 0.0f;
    }"""
    plain = attrs.evolve(unit(text, XPU_THREADS=32), max_threads=32)
    got = []
    for number, one in enumerate((plain, attrs.evolve(plain, fast_math=True))):
        (code,) = compiler.compile([one], "wave32-fast", deadline_s=60)
        path = tmp_path / f"{number}.so"
        path.write_bytes(code.code)
        device = EmulatorBackend(32).open()
        y = np.zeros(2, np.float32)
        x = np.array([1e8, 1, np.nan], np.float32)
        arrays = [device.import_array(x, writable=False), device.import_array(y, writable=True)]
        device.launcher(device.load(path, one.entry), Launch(), arrays, [])()
        got.append(y)
    assert got[0][0] == 0.0
    assert got[1][0] == 1.0
    assert np.isnan([y[1] for y in got]).all()
