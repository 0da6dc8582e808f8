"""The worker process: whatever code does in it, the parent goes on and says what it was."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from scripted_backend import (
    ClosedBackend,
    DyingBackend,
    NeedyBackend,
    ScriptedBackend,
    ScriptedDevice,
    UnfinishedBackend,
)

from xpu.choice import MemberFault, Worker
from xpu.choice.job import Job, Step, run_job
from xpu.registry import Owner, guarded
from xpu.spec import Launch


@pytest.fixture(scope="module")
def shared():
    worker = Worker(ScriptedBackend(), 0, deadline_s=10.0)
    yield worker
    worker.close()


@pytest.fixture
def job(tmp_path):
    def make(script, n=16):
        code = tmp_path / uuid.uuid4().hex
        code.write_text(script)
        x = np.random.default_rng().standard_normal(n).astype(np.float32)
        step = Step(code, "entry", Launch(), (0, 1), ())
        return Job((step,), (x, 4 * n), (1,))

    return make


def fault(worker, job, **how):
    with pytest.raises(MemberFault) as error:
        worker.run(job, **how)
    return error.value.status, error.value.note


def right(worker, job):
    [result] = worker.run(job)
    np.testing.assert_array_equal(result.view(np.float32), job.buffers[0] + 1)


def owned(backend):
    return guarded(backend, Owner("acme", "acme-xpu", "backend 'acme'"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("nonsense", "ScriptedDevice.launcher()'s launch raised AssertionError: nonsense; mend"),
        ("raise no scratch memory", "XpuLaunchException: no scratch memory"),
    ],
)
def test_a_fault_of_the_device_half_names_its_plugin(job, script, said):
    worker = Worker(owned(ScriptedBackend()), 0, deadline_s=10.0)
    status, note = fault(worker, job(script))
    worker.close()
    assert status == "failed"
    assert said in note
    assert ("'acme' of acme-xpu" in note) == (script == "nonsense")


@pytest.mark.parametrize("is_asked", [True, False])
def test_where_a_plugin_failed_in_the_worker_is_shown_when_asked_for(
    job, is_asked, monkeypatch, capfd
):
    monkeypatch.setenv("XPU_TRACEBACK", "1" if is_asked else "")
    worker = Worker(owned(ScriptedBackend()), 0, deadline_s=10.0)
    fault(worker, job("nonsense"))
    worker.close()
    assert ("raise AssertionError(text)" in capfd.readouterr().err) == is_asked


def test_a_job_gives_the_same_here_and_there(shared, job):
    one = job("add")
    right(shared, one)
    [here] = run_job(ScriptedDevice(), one)
    np.testing.assert_array_equal(here, shared.run(one)[0])


def test_large_arrays_pass_both_ways(shared, job):
    right(shared, job("add", n=1_500_000))


def test_many_jobs_are_answered_by_one_process(shared, job):
    right(shared, job("add"))
    first = shared._process.pid
    for _ in range(20):
        right(shared, job("add"))
    assert fault(shared, job("raise no scratch memory"))[0] == "failed"
    assert shared._process.pid == first


def test_a_lost_context_costs_one_member_and_its_process(shared, job):
    right(shared, job("add"))
    first = shared._process.pid
    assert fault(shared, job("lose")) == ("failed", "XpuLaunchException: the context is lost")
    right(shared, job("add"))
    assert shared._process.pid != first


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("signal SIGSEGV", "crashed", "SIGSEGV"),
        ("signal SIGABRT", "crashed", "SIGABRT"),
        ("signal SIGILL", "crashed", "SIGILL"),
        ("exit 0", "crashed", "exit status 0"),
        ("exit 42", "crashed", "exit status 42"),
        ("raise no scratch memory", "failed", "XpuLaunchException: no scratch memory"),
        ("signal SIGALRM", "hung", "passed its deadline"),
        # Not the code's doing: nobody may hold it against a member.
        ("signal SIGKILL", "failed", "from outside by SIGKILL"),
        ("signal SIGTERM", "failed", "from outside by SIGTERM"),
        ("signal SIGHUP", "failed", "from outside by SIGHUP"),
    ],
)
def test_what_happened_is_said_and_the_next_job_runs(shared, job, script, status, words):
    found = fault(shared, job(script))
    assert found[0] == status
    assert words in found[1]
    right(shared, job("add"))


def test_code_that_prints_does_not_disturb_the_answers(shared, job):
    right(shared, job("print"))
    right(shared, job("add"))


def test_code_that_does_not_end_is_ended(job, tmp_path):
    worker = Worker(ScriptedBackend(), 0, deadline_s=2.0)
    place = tmp_path / "number"
    assert fault(worker, job(f"tell {place} sleep 60")) == (
        "hung",
        "did not end within 2 s and was stopped",
    )
    assert not Path(f"/proc/{place.read_text()}").exists()
    right(worker, job("add"))
    worker.close()


def test_a_job_with_more_work_has_more_time(job):
    worker = Worker(ScriptedBackend(), 0, deadline_s=0.2)
    assert worker.run(job("sleep 0.5"), work_s=60.0)
    worker.close()


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (ClosedBackend(), "did not start: XpuLaunchException: the device is busy"),
        (NeedyBackend(1), "did not start: TypeError"),
        (owned(UnfinishedBackend()), "did not start: plugin 'acme' of acme-xpu: backend 'acme': U"),
        (DyingBackend(), "did not start"),
        (type("Local", (ScriptedBackend,), {"__qualname__": "f.<locals>.B"})(), "did not start"),
    ],
)
def test_a_worker_that_does_not_start_is_no_members_crash(job, backend, words):
    worker = Worker(backend, 0)
    status, note = fault(worker, job("add"))
    assert status == "failed"
    assert words in note
    worker.close()


def test_without_an_interpreter_to_start_nothing_crashed(job, monkeypatch):
    # A program that embeds Python may have none.
    worker = Worker(ScriptedBackend(), 0)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    status, note = fault(worker, job("add"))
    assert (status, "/no/such/python" in note) == ("failed", True)
    for empty in ("", None):
        monkeypatch.setattr(sys, "executable", empty)
        status, note = fault(worker, job("add"))
        assert status == "failed"
        assert "sys.executable is empty" in note
        assert "set it to a Python interpreter" in note


def test_modules_where_the_program_happens_to_be_are_not_imported(job, tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit(9)")
    (tmp_path / "xpu.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    worker = Worker(ScriptedBackend(), 0)
    right(worker, job("add"))
    worker.close()


def test_a_worker_at_rest_has_no_process_and_begins_anew(job):
    worker = Worker(ScriptedBackend(), 0)
    worker.rest()
    right(worker, job("add"))
    process = Path(f"/proc/{worker._process.pid}")
    worker.rest()
    assert not process.exists()
    right(worker, job("add"))
    worker.close()
    worker.rest()
    assert fault(worker, job("add")) == ("failed", "the worker process was closed")


def test_rest_waits_for_the_job_under_way(job, tmp_path):
    worker, place, found = Worker(ScriptedBackend(), 0), tmp_path / "number", []
    thread = threading.Thread(target=lambda: found.append(worker.run(job(f"tell {place} sleep 1"))))
    thread.start()
    _wait_for(lambda: place.exists() and place.read_text())
    worker.rest()
    thread.join(10)
    assert isinstance(found[0], list), "it was ended in the middle"
    worker.close()


def test_closing_while_a_job_runs_blames_nobody(job, tmp_path):
    worker, place, found = Worker(ScriptedBackend(), 0), tmp_path / "number", []
    thread = threading.Thread(
        target=lambda: found.append(fault(worker, job(f"tell {place} sleep 60")))
    )
    thread.start()
    _wait_for(lambda: place.exists() and place.read_text())
    worker.close()
    thread.join(10)
    assert [status for status, _ in found] == ["failed"]
    assert fault(worker, job("add")) == ("failed", "the worker process was closed")
    worker.close()


def test_a_worker_that_nobody_closed_ends_its_process(job):
    worker = Worker(ScriptedBackend(), 0)
    right(worker, job("add"))
    process = Path(f"/proc/{worker._process.pid}")
    assert process.exists()
    del worker
    gc.collect()
    assert not process.exists()


def test_an_interrupted_job_leaves_a_worker_that_works(shared, job, monkeypatch):
    right(shared, job("add"))

    def interrupted(*_given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("xpu.choice.worker._receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            shared.run(job("add"))
    right(shared, job("add"))


def test_jobs_of_several_threads_do_not_mix(shared, job):
    faults = []

    def work():
        try:
            for _ in range(5):
                right(shared, job("add", n=5000))
        except BaseException as error:
            faults.append(error)

    jobs = [threading.Thread(target=work) for _ in range(4)]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    assert faults == []


def test_a_program_with_thousands_of_open_files_has_a_worker(job):
    # select() refuses descriptors from 1024 on.
    opened = []
    try:
        while not opened or opened[-1] < 1100:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(ValueError, match="out of range"):
            select.select([opened[-1]], [], [], 0)
        worker = Worker(ScriptedBackend(), 0)
        right(worker, job("add"))
        worker.close()
    except OSError:
        pytest.skip("this process may not open so many files")
    finally:
        for descriptor in opened:
            os.close(descriptor)


ORPHAN = """
import sys
from pathlib import Path
import numpy as np
from scripted_backend import ScriptedBackend
from xpu.choice import Worker
from xpu.choice.job import Job, Step
from xpu.spec import Launch
code, seconds = Path(sys.argv[1]), float(sys.argv[2])
step = Step(code, "entry", Launch(), (0, 1), ())
Worker(ScriptedBackend(), 0, deadline_s=seconds).run(Job((step,), (np.zeros(1, "f4"), 4), (1,)))
"""


def test_a_worker_whose_parent_was_killed_does_not_run_for_ever(tmp_path):
    place, code = tmp_path / "number", tmp_path / "code"
    code.write_text(f"tell {place} sleep 300")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # A parent that ignores the signal must not save its orphan from it.
    command = f"import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)\n{ORPHAN}"
    parent = subprocess.Popen([sys.executable, "-c", command, code, "0.3"], env=environ)
    _wait_for(lambda: place.exists() and place.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    orphan = Path(f"/proc/{place.read_text()}")
    started = time.monotonic()
    _wait_for(lambda: not orphan.exists() or "zombie" in (orphan / "status").read_text())
    assert time.monotonic() - started < 8


def _wait_for(condition, timeout_s=15.0):
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
