"""On a real GPU: kernels that break things, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from xpu.choice import MemberFault, Worker
from xpu.choice.job import Job, Step
from xpu.spec import Launch
from xpu_backend_cuda.backend import CudaBackend

ONE = Launch((1, 1, 1), (1, 1, 1))
FAR = 1 << 44


@pytest.fixture(scope="module")
def worker(gpu):
    made = Worker(CudaBackend(), 0, deadline_s=4.0)
    yield made
    made.close()


@pytest.fixture
def unharmed(gpu, twice):
    """Show that this process still computes."""

    def show() -> None:
        gpu.synchronize()
        x = np.arange(1000, dtype=np.float32)
        y = gpu.allocate(4000, poisoned=True)
        twice(gpu.from_host(x), y, 1000)()
        gpu.synchronize()
        assert np.array_equal(gpu.to_host(y).view(np.float32), 2 * x)

    return show


def good(worker, ptx) -> None:
    x = np.arange(100, dtype=np.float32)
    step = Step(ptx, "twice", Launch((1, 1, 1), (64, 1, 1)), (0, 1), (100,))
    (result,) = worker.run(Job((step,), (x, 400), (1,)))
    assert np.array_equal(result.view(np.float32), 2 * x)


def fault(worker, job) -> MemberFault:
    with pytest.raises(MemberFault) as error:
        worker.run(job)
    return error.value


def test_a_store_out_of_bounds_costs_one_job(gpu, worker, ptx, unharmed) -> None:
    good(worker, ptx)
    bad = fault(worker, Job((Step(ptx, "outside", ONE, (0,), (FAR,)),), (64,), (0,)))
    assert bad.status == "failed"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in bad.note
    assert "the context is lost" in bad.note
    unharmed()
    good(worker, ptx)


def test_a_misaligned_store_is_named(gpu, worker, ptx, unharmed) -> None:
    bad = fault(worker, Job((Step(ptx, "outside", ONE, (0,), (1,)),), (64,), (0,)))
    assert "CUDA_ERROR_MISALIGNED_ADDRESS" in bad.note
    unharmed()


def test_a_kernel_that_never_ends_is_ended_by_its_deadline(gpu, worker, ptx, unharmed) -> None:
    good(worker, ptx)
    start = time.monotonic()
    bad = fault(worker, Job((Step(ptx, "endless", ONE, (0,), ()),), (64,), (0,)))
    assert bad.status == "hung"
    assert time.monotonic() - start < 15
    unharmed()
    good(worker, ptx)


def test_a_member_over_the_limit_of_shared_memory_costs_no_process(gpu, worker, ptx) -> None:
    good(worker, ptx)
    process = worker._process.pid
    most = gpu.facts.shared_bytes_per_block_optin
    step = Step(ptx, "shared", Launch((1, 1, 1), (1, 1, 1), most + 1), (0,), (0,))
    bad = fault(worker, Job((step,), (64,), (0,)))
    assert bad.status == "failed"
    assert f"{most + 1} bytes of shared memory" in bad.note
    good(worker, ptx)
    assert worker._process.pid == process


STICKY = """
import sys
from pathlib import Path
from xpu.errors import XpuLaunchException
from xpu.spec import Launch
from xpu_backend_cuda.device import CudaDevice
device = CudaDevice(0)
y = device.allocate(64)
kernel = device.load(Path(sys.argv[1]), "outside")
launch = device.launcher(kernel, Launch((1, 1, 1), (1, 1, 1)), [y], [1 << 44])
launch()
for ask in (device.synchronize, launch, lambda: device.allocate(1 << 30), device.synchronize):
    try:
        ask()
        print("nothing")
    except XpuLaunchException as error:
        print(error)
del y
device.close()
print("end")
"""


def test_an_error_that_stays_is_said_each_time(gpu, ptx, unharmed) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STICKY, str(ptx)], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(lines) == 5, done.stdout
    assert lines[-1] == "end"
    assert lines[0].startswith("what was queued on the device did not end well")
    assert lines[1].startswith("kernel 'outside' cannot be launched")
    for line in lines[:-1]:
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in line
        assert "end this process" in line
    assert done.stderr == ""
    unharmed()


FORKED = """
import os, sys
from xpu.errors import XpuLaunchException
from xpu_backend_cuda.device import CudaDevice
device = CudaDevice(0)
array = device.allocate(100)
pid = os.fork()
if pid == 0:
    del array
    try:
        device.allocate(100)
    except XpuLaunchException as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
assert (device.to_host(device.allocate(16, poisoned=True)) == 255).all()
print("end")
"""


def test_a_forked_process_is_told_to_be_spawned(gpu) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "end"
    assert "CUDA_ERROR_" in lines[0]
