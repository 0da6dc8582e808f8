"""Memory and arrays of the device half, and that nothing of it is left behind."""

from __future__ import annotations

import gc
import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_arrays import DlpackArray, GpuArray
from hip_stub import ADD, MEMORY_BYTES, StubbedHip

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, KernelUnit, Launch
from xpu_backend_hip.device import HipDevice
from xpu_backend_hip.facts import facts_of

UUID = "GPU-000000000000abc0"


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (1000, 7)])
def test_arrays_go_there_and_back(opened, shape) -> None:
    array = np.random.default_rng().standard_normal(shape).astype(np.float16)
    there = opened.from_host(array)
    assert (there.shape, there.dtype) == (shape, "float16")
    assert np.array_equal(opened.to_host(there), array)


def test_poison_and_copies_are_in_order_with_launches(opened) -> None:
    fresh = opened.allocate(1000, poisoned=True)
    assert (opened.to_host(fresh) == 0xFF).all()
    source = opened.from_host(np.arange(250, dtype=np.float32))
    opened.copy(source, DeviceArray(fresh.address, (250,), "float32", fresh.owner))
    again = opened.to_host(fresh).view(np.float32)
    assert np.array_equal(again, np.arange(250))


def test_memory_that_was_given_back_is_used_again_after_a_wait(stub, opened) -> None:
    first = opened.allocate(5000)
    address = first.address
    del first
    gc.collect()
    assert opened.allocate(5000).address != address, "somebody may still use it"
    opened.synchronize()
    stub.forget()
    assert opened.allocate(5000).address == address
    assert stub.calls() == []


def test_there_is_not_more_memory_than_there_is(stub, opened) -> None:
    with pytest.raises(XpuLaunchException, match=r"1099511627776 bytes.*hipErrorOutOfMemory.*free"):
        opened.allocate(1 << 40)
    assert opened.allocate(3 << 20).nbytes == 3 << 20  # it is kept
    gc.collect()
    nearly = MEMORY_BYTES - (1 << 20)
    assert opened.allocate(nearly).nbytes == nearly, "what is kept is all that was missing"


def test_what_was_given_back_during_a_wait_is_not_yet_ready(opened) -> None:
    pool = opened._opened().pool
    returned = pool.returned()
    array = opened.allocate(7000)
    address = array.address
    del array
    gc.collect()
    pool.settle(returned)  # the wait had begun before
    assert opened.allocate(7000).address != address
    opened.synchronize()
    assert opened.allocate(7000).address == address


def test_what_is_kept_is_trimmed(stub, opened) -> None:
    held, kept = opened.allocate(100), opened.allocate(7000)
    gc.collect()
    opened.trim()
    before = stub.live()[stub.ALLOCATIONS]
    del kept
    opened.synchronize()
    assert stub.live()[stub.ALLOCATIONS] == before
    opened.trim()
    assert stub.live()[stub.ALLOCATIONS] == before - 1
    assert opened.to_host(held).shape == (100,)


def test_what_was_made_is_given_back(stub, machine) -> None:
    gc.collect()
    before = stub.live()
    backend = StubbedHip()
    device = backend.open(0)
    (code,) = backend.compiler().compile(
        [kernel_unit(ADD)], backend.compiler().native_target(), deadline_s=60
    )
    path = machine / "lifetimes.co"
    path.write_bytes(code.code)
    kernel = device.load(path, "kernel_under_test")
    arrays = [device.from_host(np.zeros(64, np.float32)) for _ in range(2)]
    launch = device.launcher(kernel, Launch((1, 1, 1)), arrays, (32,), device.timer().stream)
    assert device.timer().bracket_ns([launch] * 3) > 0
    plain = device.launcher(kernel, Launch((1, 1, 1)), arrays, (32,))
    device.close()
    device.close()
    with pytest.raises(XpuLaunchException, match="was closed; open it again"):
        device.allocate(1)
    held = [now - then for now, then in zip(stub.live(), before, strict=True)]
    assert held[stub.ALLOCATIONS] == 2, "arrays of callers stay valid"
    assert held == [2, 0, 0, 0, 0, 1], "and so does the code that may be launched"
    del kernel
    gc.collect()
    assert stub.live()[stub.MODULES] == before[stub.MODULES] + 1
    plain()
    with pytest.raises(XpuLaunchException, match="hipErrorInvalidHandle"):
        launch()  # its stream went with the clock
    del arrays, launch, plain, device
    gc.collect()
    assert stub.live() == before


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # since Python 3.12
def test_a_forked_child_gives_nothing_back(stub, opened) -> None:
    array = opened.allocate(8 << 20)  # more than is kept
    pid = os.fork()
    if pid == 0:
        stub.forget()
        del array
        gc.collect()
        os._exit(len(stub.calls()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stub.forget()
    del array
    gc.collect()
    assert "hipFree" in stub.names()


def kernel_unit(text: str) -> Any:
    defines = {"XPU_THREADS": "32"}
    return KernelUnit("kernel", "kernel_under_test", f'#include "xpu_simt.h"\n{text}', {}, defines)


def test_arrays_of_frameworks_are_taken_without_a_copy(opened) -> None:
    value = GpuArray.of(np.arange(24, dtype=np.float32).reshape(4, 6), opened)
    exported = DlpackArray(value)
    for given in (value, exported):
        taken = opened.import_array(given, writable=True)
        assert (taken.address, taken.shape, taken.dtype) == (value.address, (4, 6), "float32")
    assert exported.asked[0]["stream"] == 0, "the default stream, as ROCm calls it"
    part = opened.import_array(value[1:3], writable=True)
    assert np.array_equal(opened.to_host(part), np.arange(6, 18).reshape(2, 6))


def test_what_came_through_dlpack_is_given_back_once(opened) -> None:
    value = GpuArray.of(np.zeros(8, np.float32), opened)

    def counted() -> int:
        gc.collect()
        return sys.getrefcount(value._shape)

    before = counted()
    taken = opened.import_array(DlpackArray(value), writable=True)
    during = counted()
    del taken
    after = counted()
    with pytest.raises(XpuLaunchException, match="another device"):
        opened.import_array(DlpackArray(value, number=3), writable=True)
    refused = counted()
    assert (during, after, refused) == (before + 1, before, before)


def test_arrays_that_cannot_be_used_are_refused_by_name(opened) -> None:
    value = GpuArray.of(np.zeros((4, 6), np.float32), opened)
    host = np.zeros(4, np.float32)
    cases = [
        (value[:, ::2], "not contiguous"),
        (DlpackArray(value.T), "not contiguous"),
        (value.frozen(), "read-only"),
        (host, "lies in host memory"),
        (DlpackArray(value, 2), r"another kind of device \(DLPack 2\)"),
        (DlpackArray(value, 11), "lies in host memory"),
        (DlpackArray(value, number=3), "another device, number 3"),
        (DeviceArray(host.ctypes.data, (4,), "float32", host), "lies in host memory"),
    ]
    for given, words in cases:
        with pytest.raises(XpuLaunchException, match=words):
            opened.import_array(given, writable=True)
    assert opened.import_array(value.frozen(), writable=False).nbytes == 96


class Tensor:
    """A tensor of torch's: for ROCm, too, its word for the device is cuda."""

    requires_grad = False

    def __init__(self, array: GpuArray, device: str = "cuda:0", *, gaps: bool = False) -> None:
        self._array = array
        self.device, self.shape, self.dtype = device, (4, 6), "torch.float32"
        self.is_cuda = device.startswith("cuda")
        self._gaps = gaps

    def get_device(self) -> int:
        return int(self.device[-1])

    def is_contiguous(self) -> bool:
        return not self._gaps

    def is_neg(self) -> bool:
        return False

    def stride(self) -> tuple[int, int]:
        return (12, 2)

    def data_ptr(self) -> int:
        return self._array.address


def test_tensors_of_torch_are_asked_directly(opened, monkeypatch) -> None:
    value = GpuArray.of(np.zeros((4, 6), np.float32), opened)
    version = SimpleNamespace(hip="7.2.0")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=version))
    taken = opened.import_array(Tensor(value), writable=True)
    assert (taken.address, taken.shape, taken.dtype) == (value.address, (4, 6), "float32")
    trained, negative = Tensor(value), Tensor(value)
    monkeypatch.setattr(trained, "requires_grad", True)
    monkeypatch.setattr(negative, "is_neg", lambda: True)
    for tensor, words in (
        (trained, "requires a gradient; pass tensor.detach"),
        (negative, "lazy negative; pass tensor.resolve_neg"),
        (Tensor(value, "cpu"), "tensor on cpu lies in host memory"),
        (Tensor(value, "cuda:1"), "another device, number 1"),
        (Tensor(value, gaps=True), r"strides \(12, 2\) is not contiguous"),
    ):
        with pytest.raises(XpuLaunchException, match=words):
            opened.import_array(tensor, writable=True)
    version.hip = None
    with pytest.raises(XpuLaunchException, match="built for other GPUs than AMD's"):
        opened.import_array(Tensor(value), writable=True)


def test_the_facts_are_cleaned_ones(opened) -> None:
    facts = opened.facts
    assert (facts.name, facts.architecture, facts.uuid) == ("Stub", "gfx1151", UUID)
    assert facts.driver_version.startswith("HIP 7.2.53211, ")
    assert facts.shared_bytes_per_multiprocessor == 131072
    assert facts.max_blocks_per_multiprocessor is None
    assert facts.last_level_cache_bytes is None, "the runtime knows the L2 alone"
    assert facts.further["max_block_z"] == 1024
    assert facts.matrix_shapes == StubbedHip().compiler().matrix_shapes("gfx1151")
    assert facts.matrix_shapes
    assert facts == facts_of(0)
    assert opened.identity()["device"] == facts.uuid
    with pytest.raises(XpuLaunchException, match=r"has 1 devices, numbers from 0; asked for 4"):
        HipDevice(4)
