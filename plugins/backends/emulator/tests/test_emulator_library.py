"""The emulated part's library: what it multiplies, and what it finds wrong with a call."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from xpu import Orchestrator
from xpu.errors import XpuLaunchException
from xpu.spec import GEMM_NT_BF16, DeviceArray, Launch
from xpu_backend_emulator.backend import EmulatorBackend

M, N, K = 3, 5, 8


@pytest.fixture
def device():
    return EmulatorBackend(32).open()


def pack(device, weights, x, y):
    return device.launcher(device.routine(GEMM_NT_BF16), Launch(), [weights, x, y], (M, N, K))


def ones(device, rows):
    return device.from_host(np.full((rows, K), 0x3F80, np.uint16))


def test_a_caller_reads_what_the_library_wrote(device) -> None:
    y = device.allocate(4 * M * N, poisoned=True)
    pack(device, ones(device, N), ones(device, M), y)()
    assert np.asarray(y.owner.written).all()
    assert (device.to_host(y).view(np.float32) == K).all()


@pytest.mark.parametrize("name", ["W", "x"])
def test_a_read_of_what_nothing_wrote_is_a_fault(device, name) -> None:
    arrays = {"W": ones(device, N), "x": ones(device, M)}
    arrays[name].owner.written[-1] = 0
    y = device.allocate(4 * M * N)
    with pytest.raises(XpuLaunchException, match=f"reads {name} where nothing wrote it"):
        pack(device, *arrays.values(), y)()
    assert not np.asarray(y.owner.written).any()


@pytest.mark.parametrize(("place", "words"), [(0, "W of 5 x 8"), (1, "x of 3 x 8"), (2, "y of 3")])
def test_memory_that_is_too_small_is_refused(device, place, words) -> None:
    arrays = [ones(device, N), ones(device, M), device.allocate(4 * M * N)]
    short = arrays[place]
    arrays[place] = DeviceArray(short.address, (short.nbytes - 1,), "uint8", short)
    with pytest.raises(XpuLaunchException, match=words):
        pack(device, *arrays)


def test_a_packed_call_keeps_no_array(device) -> None:
    arrays = [ones(device, N), ones(device, M), device.allocate(4 * M * N)]
    ends = [weakref.ref(array.owner) for array in arrays]
    launch = pack(device, *arrays)
    del arrays
    gc.collect()
    assert [end() for end in ends] == [None] * 3
    del launch


def test_a_family_that_calls_a_library_serves_from_end_to_end(tmp_path, monkeypatch) -> None:
    kquant = pytest.importorskip("xpu_family_kquant.reference")
    monkeypatch.setenv("XPU_EMULATOR_WAVE", "64")
    rng = np.random.default_rng()
    rows = kquant.random_blocks("q5_k", 37, 512, rng)
    with Orchestrator(backend="emulator", store=tmp_path, tuning="first-use") as orchestrator:
        linear = orchestrator.op("q5k_library", n=37, k=512)
        weights = orchestrator.prepare("q5k_library", rows)
        for m in (1, 9, 9):
            x = rng.standard_normal((m, 512), dtype=np.float32)
            y = np.full((m, 37), np.nan, np.float32)
            assert linear(weights, x, out=y) is y
            errors = kquant.errors("q5_k", rows, x, y)
            assert np.sqrt(np.mean(errors**2)) < kquant.ERROR_RMS
            assert errors.max() < kquant.ERROR_MAX
        assert orchestrator.bind("q5k_library", m=9, n=37, k=512).member == "gemm"
        # Weights that a tile prepared serve the library, and the other way round.
        again = orchestrator.prepare("q5k_tile", rows)
        other = np.empty_like(y)
        linear(again, x, out=other)
        assert np.array_equal(other, y)
