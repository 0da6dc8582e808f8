"""Memory: what is kept, what is freed, and when it may be used again."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest

from xpu.spec import DeviceArray
from xpu.spec.pool import _rounded
from xpu_backend_cuda.errors import CudaError

PAGE = 2 << 20


@pytest.mark.parametrize(
    ("nbytes", "size"),
    [
        (0, 512),
        (1, 512),
        (512, 512),
        (513, 1024),
        (PAGE - 1, PAGE),
        (PAGE, PAGE),
        (PAGE + 1, 2 * PAGE),
        (5 * PAGE, 5 * PAGE),
    ],
)
def test_sizes_are_rounded_so_that_others_ask_for_them_too(nbytes, size) -> None:
    assert _rounded(nbytes) == size


def test_memory_is_used_again_only_when_the_device_has_been_waited_for(fake, opened) -> None:
    first = opened.allocate(5000)
    address = first.address
    assert (first.shape, first.dtype) == ((5000,), "uint8")
    del first
    second = opened.allocate(5000)
    assert second.address != address, "a launch may still use it"
    opened.synchronize()
    third = opened.allocate(6000)
    assert third.address == address
    assert "cuMemFree" not in fake.calls


def test_memory_that_comes_back_while_the_device_is_waited_for_is_not_settled(fake, opened) -> None:
    held = [opened.allocate(100)]
    wait = fake.cuCtxSynchronize

    def meanwhile():
        held.clear()
        return wait()

    fake.cuCtxSynchronize = meanwhile
    opened.synchronize()
    before = set(fake.memory)
    assert opened.allocate(100).address not in before
    opened.synchronize()
    assert opened.allocate(100).address in before


def test_memory_that_comes_back_while_the_lock_is_held_is_found_later(fake, opened) -> None:
    pool = opened._opened().pool
    array = opened.allocate(100)
    address = array.address
    with pool._lock:
        del array  # as a finalizer that runs in the middle of an allocation
        assert not pool._returned
    opened.synchronize()
    assert opened.allocate(100).address == address


def test_a_part_keeps_its_allocation(opened) -> None:
    slab = opened.allocate(4096)
    part = DeviceArray(slab.address + 256, (8,), "uint8", slab)
    address = slab.address
    del slab
    opened.synchronize()
    other = opened.allocate(4096)
    assert other.address != address
    opened.poison(part)
    assert (opened.to_host(part) == 0xFF).all()


def test_no_more_is_kept_than_a_share_of_the_device(fake, opened) -> None:
    share = opened.facts.memory_bytes // 64
    small = [opened.allocate(8) for _ in range(200)]
    small.clear()
    assert len(fake.memory) == 128
    opened.synchronize()
    large = [opened.allocate(share // 4) for _ in range(6)]
    addresses = [array.address for array in large]
    while large:
        del large[0]
    assert set(fake.memory) == set(addresses[2:]), "the oldest go first"
    huge = opened.allocate(2 * share)
    assert len(fake.memory) == 5
    del huge
    assert set(fake.memory) == set(addresses[2:]), "what is too large to be kept drives nothing out"


def test_what_is_kept_gives_way_when_memory_runs_short(fake, opened) -> None:
    fake.most_bytes = 20 * PAGE
    first = opened.allocate(8 * PAGE)
    second = opened.allocate(8 * PAGE)
    del first
    with pytest.raises(CudaError, match=r"bytes of the memory of device 0.*OUT_OF_MEMORY.*free"):
        opened.allocate(21 * PAGE)
    assert len(fake.memory) == 1
    assert opened.allocate(12 * PAGE).nbytes == 12 * PAGE
    assert second.nbytes == 8 * PAGE


def test_trimming_frees_what_is_kept_and_leaves_what_is_held(fake, opened) -> None:
    held, ready, returned = opened.from_host(np.arange(5)), opened.allocate(77), opened.allocate(9)
    del ready
    opened.synchronize()
    del returned
    assert len(fake.memory) == 3
    opened.trim()
    assert list(fake.memory) == [held.address]
    again = opened.allocate(77)
    del again
    assert len(fake.memory) == 2, "it keeps memory as before"
    opened.close()
    opened.trim()
    assert list(fake.memory) == [held.address]


def test_closing_frees_what_is_kept_and_leaves_what_is_held(fake, opened) -> None:
    held, kept = opened.from_host(np.arange(5)), opened.allocate(77)
    del kept
    opened.close()
    opened.close()
    assert list(fake.memory) == [held.address]
    assert fake.retained == [1, 0]
    del held
    gc.collect()
    assert not fake.memory
    assert fake.retained == [0, 0]


def test_a_device_that_nobody_has_gives_everything_back(fake, code) -> None:
    from xpu_backend_cuda.device import CudaDevice

    device = CudaDevice(0)
    device.load(code, "copy")
    device.timer().bracket_ns([])
    assert fake.modules == 2
    _ = device.allocate(100), device.allocate(10)
    del device, _
    gc.collect()
    assert (fake.memory, fake.modules, fake.retained) == ({}, 0, [0, 0])


def test_a_device_that_nobody_has_waits_for_nothing(fake, code) -> None:
    """To wait for the context would end a capture that another library has under way."""
    from xpu_backend_cuda.device import CudaDevice

    device = CudaDevice(0)
    device.load(code, "copy")
    device.timer().bracket_ns([])
    device.allocate(100)
    fake.calls.clear()
    del device
    gc.collect()
    assert "cuMemFree" in fake.calls
    assert not {"cuCtxSynchronize", "cuStreamSynchronize"} & set(fake.calls)


def test_closing_waits_before_anything_is_freed(fake, opened, code) -> None:
    opened.load(code, "copy")
    opened.allocate(100)
    fake.calls.clear()
    opened.close()
    freed = [fake.calls.index(name) for name in ("cuMemFree", "cuModuleUnload")]
    assert fake.calls.index("cuCtxSynchronize") < min(freed)


def test_a_closed_device_says_so(opened) -> None:
    opened.close()
    for call in (lambda: opened.allocate(1), opened.synchronize, opened.timer):
        with pytest.raises(Exception, match="Fake 0 was closed"):
            call()


def test_arrays_of_any_shape_and_order_come_back(opened) -> None:
    rng = np.random.default_rng()
    for array in (
        np.float32(3.5),
        rng.standard_normal((0, 4)),
        rng.standard_normal((3, 5)).T,
        rng.integers(0, 9, (4, 4))[::2, ::2],
        np.arange(6, dtype=">i4"),
        np.array([True, False]),
    ):
        taken = opened.from_host(np.asarray(array))
        back = opened.to_host(taken)
        assert (back.shape, back.dtype.name) == (np.shape(array), taken.dtype)
        assert np.array_equal(back, array)
    bits = DeviceArray(opened.from_host(np.uint16([1, 2])).address, (2,), "bfloat16", None)
    assert opened.to_host(bits).dtype.itemsize == 2


def test_an_array_that_outlives_the_interpreter_harms_nothing(fake) -> None:
    script = """
import sys, types
sys.path[:0] = {path!r}
import conftest
from xpu_backend_cuda import driver
fake = conftest.FakeDriver()
sys.modules[driver.BINDINGS] = fake
from xpu_backend_cuda.device import CudaDevice
device = CudaDevice(0)
kept = device.allocate(100)
timer = device.timer()
class Late:
    def __del__(self): self.array = None
late = Late(); late.array = device.allocate(5)
print("end")
"""
    here = [str(path) for path in (__import__("pathlib").Path(__file__).parent,)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script.format(path=here)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
