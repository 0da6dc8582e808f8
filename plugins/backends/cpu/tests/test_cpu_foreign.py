from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from xpu_backend_cpu.foreign import WINDOW_S, ForeignLoad
from xpu_backend_cpu.limits import allowed_cpus

BURN = "import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"


class Clock:
    """Stands for /proc with two processors, and for the time that passes."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.now_s = 100.0
        self.own_s = 0.0
        self.rows = [[1000, 0, 100, 9000, 50, 0, 0, 0, 0, 0] for _ in range(3)]
        monkeypatch.setattr("xpu_backend_cpu.foreign.time.monotonic", lambda: self.now_s)
        monkeypatch.setattr("xpu_backend_cpu.foreign.time.sleep", self.sleep)
        monkeypatch.setattr(ForeignLoad, "_own_s", lambda _: self.own_s)
        self.write()

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def spend(self, cpu: int, column: int, seconds: float) -> None:
        self.rows[cpu][column] += round(seconds * os.sysconf("SC_CLK_TCK"))
        self.write()

    def write(self) -> None:
        lines = [f"cpu{cpu} {' '.join(map(str, row))}" for cpu, row in enumerate(self.rows)]
        (self.root / "stat").write_text("\n".join(["cpu  1 2 3", *lines, "intr 5"]))


def test_shares_of_user_system_and_stolen_time(tmp_path, monkeypatch):
    clock = Clock(tmp_path, monkeypatch)
    load = ForeignLoad(frozenset({0, 1}), proc=tmp_path)
    clock.now_s += 1.0
    clock.spend(0, 0, 0.5)  # user
    clock.spend(1, 2, 0.2)  # system
    clock.spend(1, 7, 0.3)  # steal
    clock.spend(1, 3, 0.5)  # idle
    clock.spend(2, 0, 1.0)  # a processor that this process may not use
    clock.own_s += 0.4
    assert load.share() == pytest.approx(0.3)
    clock.now_s += 1.0
    assert load.share() == pytest.approx(0.0)


def test_a_call_soon_after_another_looks_further_back(tmp_path, monkeypatch):
    clock = Clock(tmp_path, monkeypatch)
    load = ForeignLoad(frozenset({0}), proc=tmp_path)
    clock.now_s += 1.0
    clock.spend(0, 0, 0.5)
    assert load.share() == pytest.approx(0.5)
    clock.now_s += WINDOW_S / 10
    assert load.share() == pytest.approx(0.5, rel=0.02)


def test_the_first_call_waits_for_a_window(tmp_path, monkeypatch):
    clock = Clock(tmp_path, monkeypatch)
    load = ForeignLoad(frozenset({0}), proc=tmp_path)
    assert load.share() == 0.0
    assert clock.now_s == pytest.approx(100.0 + WINDOW_S)


def test_a_machine_without_counters_says_nothing(tmp_path):
    assert ForeignLoad(frozenset({0}), proc=tmp_path).share() is None


def pinned(cpu: int) -> str:
    return f"import os\nos.sched_setaffinity(0, {{{cpu}}})\n{BURN}"


def test_a_childs_work_counts_as_own():
    load = ForeignLoad(allowed_cpus())
    child = subprocess.Popen([sys.executable, "-c", BURN])
    try:
        start, deadline = load._own_s(), time.monotonic() + 10
        while load._own_s() - start < 0.1:
            assert time.monotonic() < deadline, "the child's time is not seen"
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()
    assert load._own_s() - start >= 0.1


@pytest.mark.skipif(os.getpid() == 1, reason="an orphan would be this process's child")
def test_a_strangers_work_is_foreign():
    cpu = min(allowed_cpus())
    # A child whose parent has gone is nobody's descendant here.
    orphan = (
        "import subprocess, sys\n"
        f"args = [sys.executable, '-c', {pinned(cpu)!r}]\n"
        "print(subprocess.Popen(args, stdout=-3, stderr=-3).pid)"
    )
    load = ForeignLoad(frozenset({cpu}))
    done = subprocess.run([sys.executable, "-c", orphan], capture_output=True, text=True)
    stranger = int(done.stdout)
    try:
        time.sleep(0.2)
        load.share()
        time.sleep(0.4)
        assert load.share() > 0.2
    finally:
        os.kill(stranger, signal.SIGKILL)


def test_the_work_of_this_process_counts_as_its_own():
    load = ForeignLoad(allowed_cpus())
    start, end = load._own_s(), time.process_time() + 0.2
    thread = threading.Thread(
        target=lambda: [None for _ in iter(lambda: time.process_time() < end, False)]
    )
    thread.start()
    thread.join()
    assert 0.15 < load._own_s() - start < 0.6
