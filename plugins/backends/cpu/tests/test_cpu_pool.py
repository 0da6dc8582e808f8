from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu_backend_cpu import pool
from xpu_backend_cpu.toolchain import Toolchain, find_toolchain

# Three phases, each of which needs all of the one before, through scratch memory.
PHASED = """
XPU_PHASES(3);
XPU_SCRATCH { (void)workers; return 16 * sizes[0]; }
XPU_KERNEL {
    const int64_t n = sizes[0], *x = buffers[0];
    int64_t *y = buffers[1], *a = team->scratch, *b = a + n;
    for (int64_t first; (first = xpu_take(team, 64)) < n;)
        for (int64_t i = first; i < first + 64 && i < n; i++) {
            if (team->phase == 0) a[i] = 3 * x[i];
            if (team->phase == 1) b[i] = a[n - 1 - i] + 1;
            if (team->phase == 2) y[i] = b[(i * 7 + 5) % n];
        }
}
"""
# Counts each worker's visit of each phase, and keeps what it was told.
VISITS = """
XPU_PHASES(4);
XPU_KERNEL {
    int64_t *visits = buffers[0], *workers = buffers[1];
    __atomic_fetch_add(&visits[team->phase * team->workers + team->worker], 1, 5);
    if (team->scratch || *team->next > 0) visits[0] = -1;
    workers[0] = team->workers;
}
"""


def phased_answer(x: np.ndarray) -> np.ndarray:
    n = len(x)
    return (3 * x[::-1] + 1)[(np.arange(n) * 7 + 5) % n]


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_phases_follow_each_other_whatever_the_workers(launcher, workers):
    rng = np.random.default_rng()
    for n in (1, 63, 5000):
        x = rng.integers(-(2**40), 2**40, n)
        y = np.zeros_like(x)
        launch = launcher(PHASED, [x, y], [n], workers)
        for _ in range(20):
            y[:] = 0
            launch()
            np.testing.assert_array_equal(y, phased_answer(x))


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_worker_is_run_once_in_each_phase(launcher, workers):
    visits, told = np.zeros((4, workers), np.int64), np.zeros(1, np.int64)
    launch = launcher(VISITS, [visits, told], [], workers)
    for _ in range(100):
        launch()
    assert told[0] == workers
    assert (visits == 100).all()


def test_launches_with_pauses_between_find_sleeping_workers(launcher):
    x = np.arange(3000)
    y = np.zeros_like(x)
    launch = launcher(PHASED, [x, y], [len(x)], 3)
    for _ in range(20):
        time.sleep(0.002)
        y[:] = 0
        launch()
        np.testing.assert_array_equal(y, phased_answer(x))


def test_launches_of_four_threads_do_not_disturb_each_other(launcher):
    rng = np.random.default_rng()
    failures: list[int] = []

    def serve(n: int, workers: int) -> None:
        x = rng.integers(0, 2**40, n)
        y = np.zeros_like(x)
        launch = launcher(PHASED, [x, y], [n], workers)
        expected = phased_answer(x)
        for _ in range(150):
            y[:] = 0
            launch()
            if not np.array_equal(y, expected):
                failures.append(n)

    launcher(PHASED, [np.zeros(1, np.int64)] * 2, [1], 1)()
    threads = [
        threading.Thread(target=serve, args=(n, workers))
        for n, workers in ((4000, 2), (70_000, 3), (700, 4), (9000, 1))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_second_launch_neither_waits_nor_shares_scratch(launcher):
    text = """
    XPU_SCRATCH { (void)workers; return sizes[0]; }
    XPU_KERNEL {
        volatile int64_t *state = buffers[0];
        volatile char *room = team->scratch;
        if (team->worker) return;
        for (int64_t i = 0; i < sizes[0]; i++) room[i] = (char)sizes[1];
        for (state[0] = 1; !state[1];) { }
        int64_t sum = 0;
        for (int64_t i = 0; i < sizes[0]; i++) sum += room[i];
        state[2] = sum;
    }"""
    first, second = np.zeros(3, np.int64), np.array([0, 1, 0])
    holding = threading.Thread(target=launcher(text, [first], [5000, 1]))
    holding.start()
    try:
        while not first[0]:
            time.sleep(0.001)
        launcher(text, [second], [5000, 2])()
    finally:
        first[1] = 1
        holding.join()
    assert (first[2], second[2]) == (5000, 10_000)


def test_scratch_is_aligned_and_follows_sizes_and_workers(launcher):
    text = """
    XPU_SCRATCH { return sizes[0] * workers; }
    XPU_KERNEL {
        if (team->worker) return;
        ((int64_t *)buffers[0])[0] = (int64_t)((uintptr_t)team->scratch % 64);
        for (int64_t i = 0; i < sizes[0] * team->workers; i++) ((char *)team->scratch)[i] = 1;
    }"""
    for size in (1, 1000, 5 << 20):
        out = np.full(1, -1)
        launcher(text, [out], [size], 3)()
        assert out[0] == 0


@pytest.mark.parametrize("wanted", ["-1", "1LL << 60"])
def test_scratch_that_cannot_be_had_is_an_error_and_nothing_runs(launcher, wanted):
    text = f"""
    XPU_SCRATCH {{ (void)sizes; return {wanted}; }}
    XPU_KERNEL {{ ((int64_t *)buffers[0])[0] = 1; }}"""
    out = np.zeros(1, np.int64)
    launch = launcher(text, [out], [8], 2)
    for _ in range(2):
        with pytest.raises(XpuLaunchException, match="scratch"):
            launch()
    assert out[0] == 0


def test_other_python_threads_run_during_a_launch(launcher):
    text = """
    XPU_KERNEL {
        volatile int64_t *flag = buffers[0];
        for (int64_t i = 0; i < 20000000000 && !*flag; i++) { }
        if (*flag && !team->worker) ((int64_t *)buffers[1])[0] = 1;
    }"""
    flag, out = np.zeros(1, np.int64), np.zeros(1, np.int64)
    launch = launcher(text, [flag, out], [], 1)

    def release() -> None:
        flag[0] = 1

    timer = threading.Timer(0.05, release)
    timer.start()
    launch()
    timer.join()
    assert out[0] == 1


def run_script(body: str, *arguments: object) -> str:
    start = """
        import os, sys, threading, time
        from pathlib import Path
        import numpy as np
        from xpu.spec import Launch
        from xpu_backend_cpu.backend import CpuBackend
        device = CpuBackend(workers=3).open()
        kernel = device.load(Path(sys.argv[1]), "kernel_under_test")
        def serve(n):
            x = np.random.default_rng().integers(0, 2**40, n)
            y = np.zeros_like(x)
            taken = [device.import_array(array, writable=True) for array in (x, y)]
            launch = device.launcher(kernel, Launch(), taken, [n])
            for _ in range(20):
                y[:] = 0
                launch()
                assert (y == (3 * x[::-1] + 1)[(np.arange(n) * 7 + 5) % n]).all()
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(body)]
        + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={**__import__("os").environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_has_workers_of_its_own_and_ends(build):
    script = """
        serve(50_000)
        stop = False
        def keep_busy():
            while not stop:
                serve(20_000)
        thread = threading.Thread(target=keep_busy)
        thread.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    serve(30_000)
                    code = 0 if len(os.listdir("/proc/self/task")) == 3 else 3
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
        stop = True
        thread.join()
        serve(1000)
        print("served")
        """
    assert run_script(script, build(PHASED)) == "served\n"


def test_a_process_ends_while_its_workers_sleep_or_work(build):
    script = """
        serve(50_000)
        def for_ever():
            while True:
                serve(1_000)
        threading.Thread(target=for_ever, daemon=True).start()
        time.sleep(0.05)
        print("ending")
        """
    assert run_script(script, build(PHASED)) == "ending\n"


def test_the_library_is_built_once_and_a_torn_file_is_never_loaded(tmp_path):
    toolchain = find_toolchain()
    first = pool._built(toolchain, tmp_path)
    stamp = first.stat().st_mtime_ns
    assert pool._built(toolchain, tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    assert pool._built(toolchain, tmp_path).read_bytes() == whole
    assert {path.suffix for path in tmp_path.iterdir()} == {".so"}


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XPU_BUILD_CACHE", str(tmp_path / "file"))
    loaded = pool.load_pool.__wrapped__(find_toolchain())
    assert loaded.nothing > 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_compiler_that_cannot_build_the_library_is_named(fake_cc, tmp_path):
    fake_cc("echo 'fatal error: stdlib.h: No such file' >&2; exit 1")
    toolchain = find_toolchain()
    assert isinstance(toolchain, Toolchain)
    with pytest.raises(XpuBuildError, match=r"stdlib\.h"):
        pool._built(toolchain, Path(tmp_path))


def test_code_that_is_none_is_refused_with_its_name(open_device, build, tmp_path):
    (tmp_path / "bad.so").write_bytes(b"no code")
    device = open_device(1)
    with pytest.raises(XpuLaunchException, match="'missing'"):
        device.load(tmp_path / "bad.so", "missing")
    with pytest.raises(XpuLaunchException, match="'missing'"):
        device.load(build(PHASED), "missing")
