"""A host kept busy, and left alone again however the load ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from xpu.errors import XpuError
from xpu.measure import host_load


def streams() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "target[:]" in str(child.cmdline())]


def test_a_process_streams_on_each_core_and_none_is_left() -> None:
    with host_load():
        running = streams()
        assert len(running) == len(os.sched_getaffinity(0))
        before = [sum(child.cpu_times()[:2]) for child in running]
        until = time.monotonic() + 20
        while any(
            sum(child.cpu_times()[:2]) <= was for child, was in zip(running, before, strict=True)
        ):
            assert time.monotonic() < until
            time.sleep(0.02)
    assert streams() == []


def test_an_error_ends_it_too() -> None:
    def fail() -> None:
        assert len(streams()) == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), host_load(1):
        fail()
    assert streams() == []


def test_what_cannot_be_started_is_named_and_costs_no_process(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(XpuError, match=r"kept busy.*nowhere"), host_load(2):
        pass
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(XpuError, match="ended at once"), host_load(2):
        pass
    assert streams() == []


def test_it_ends_with_a_parent_that_was_killed() -> None:
    code = (
        "import time\nfrom xpu.measure import host_load\nwith host_load(1):\n  print(flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code + "  time.sleep(60)"], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    [child] = psutil.Process(parent.pid).children()
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
