"""Calls of bound kernels on the CPU, with real kernels, fresh data and poisoned results."""

from __future__ import annotations

import gc
import mmap
import os
import threading
from pathlib import Path

import first_party
import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem, XpuConfigError, XpuLaunchException

SHARED = [("q4k_tile", "q4k_matvec"), ("q5k_tile", "q5k_matvec"), ("q6k_tile", "q6k_matvec")]


@pytest.fixture(scope="module")
def orchestrator():
    registry = first_party.registry("cpu", "kquant")
    with Orchestrator(store=None, tuning="off", backend="cpu", registry=registry) as one:
        yield one


@pytest.fixture
def toys(tmp_path):
    config = toy.write_family(tmp_path, {"plain": {"mode": toy.RIGHT}})
    with Orchestrator(
        None, tuning="off", backend="cpu", config=config, registry=toy.toy_registry()
    ) as one:
        yield one


def inputs(orchestrator, family, rng, **sizes):
    """Random weights and activations, and a check of a result against the reference."""
    declared = orchestrator.settings.family(family)
    design = orchestrator.registry.design_of(declared)
    problem = Problem(**sizes)
    data = dict(design.data(problem, declared.constants, rng))

    def fault(y):
        return design.verify(problem, declared.constants, data, {"y": y}, rng)

    return data["weights"], data["x"], fault


def poisoned(m, n):
    return np.full((m, n), np.nan, np.float32)


@pytest.mark.parametrize("families", SHARED, ids=lambda pair: pair[0][:3])
def test_weights_prepared_once_serve_every_size_and_both_designs(orchestrator, families):
    rng = np.random.default_rng()
    n, k = int(rng.integers(1, 80)), 256 * int(rng.integers(1, 4))
    weights, _, _ = inputs(orchestrator, families[0], rng, m=1, n=n, k=k)
    prepared = [orchestrator.prepare(family, weights) for family in families]
    for m in (1, int(rng.integers(2, 30))):
        for family in families:
            x = rng.standard_normal((m, k), dtype=np.float32)
            kernel = orchestrator.bind(family, m=m, n=n, k=k)
            results = []
            for given in (weights, *prepared):
                y = poisoned(m, n)
                assert kernel(given, x, out=y) is y
                results.append(y)
            declared = orchestrator.settings.family(family)
            design = orchestrator.registry.design_of(declared)
            for y in results:
                given = {"weights": weights, "x": x}
                problem = Problem(m=m, n=n, k=k)
                assert design.verify(problem, declared.constants, given, {"y": y}, rng) == ""
                np.testing.assert_array_equal(y, results[0])


def test_weights_of_another_format_are_refused(orchestrator):
    rng = np.random.default_rng()
    weights, x, _ = inputs(orchestrator, "q4k_tile", rng, m=2, n=16, k=256)
    other, _, _ = inputs(orchestrator, "q6k_tile", rng, m=2, n=16, k=256)
    kernel, y = orchestrator.bind("q4k_tile", m=2, n=16, k=256), poisoned(2, 16)
    for given, words in (
        (orchestrator.prepare("q6k_tile", other), ["another format", "prepare('q4k_tile'"]),
        (orchestrator.prepare("q4k_tile", weights[:8]), ["'weights'", "(16, 144)", "(8, 144)"]),
    ):
        with pytest.raises(XpuLaunchException) as error:
            kernel(given, x, out=y)
        assert all(word in str(error.value) for word in ["q4k_tile 2x16x256", *words])
    prepared = orchestrator.prepare("q4k_tile", weights)
    with pytest.raises(XpuLaunchException, match="'x' is an array, not prepared weights"):
        kernel(weights, prepared, out=y)
    assert np.isnan(y).all()


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(144, np.uint8), "shape (144,)"),
        (np.zeros((2, 3, 144), np.uint8), "shape (2, 3, 144)"),
        (np.zeros((2, 144), np.float32), "is uint8, given float32"),
        (np.zeros((4, 288), np.uint8)[:, ::2], "contiguous"),
        (np.asfortranarray(np.zeros((4, 144), np.uint8)), "contiguous"),
        (None, "NoneType"),
        ([[0] * 144], "list"),
    ],
)
def test_weights_that_cannot_be_prepared_are_refused_by_name(orchestrator, weights, words):
    with pytest.raises(XpuLaunchException) as error:
        orchestrator.prepare("q4k_tile", weights)
    assert all(word in str(error.value) for word in ["q4k_tile", "'weights'", words])


def test_raw_weights_that_the_result_overlaps_are_refused(orchestrator):
    memory = np.zeros(16 * 144, np.uint8)
    before = memory.copy()
    y = memory[256:320].view(np.float32).reshape(1, 16)
    kernel = orchestrator.bind("q4k_tile", m=1, n=16, k=256)
    with pytest.raises(XpuLaunchException, match="'y' is written and overlaps 'weights'"):
        kernel(memory.reshape(16, 144), np.ones((1, 256), np.float32), out=y)
    np.testing.assert_array_equal(memory, before)


def test_no_rows_are_done_at_once(orchestrator):
    rng = np.random.default_rng()
    weights, _, _ = inputs(orchestrator, "q4k_tile", rng, m=1, n=16, k=256)
    op = orchestrator.op("q4k_tile", n=16, k=256)
    for given in (weights, orchestrator.prepare("q4k_tile", weights)):
        y = poisoned(0, 16)
        assert op(given, np.zeros((0, 256), np.float32), out=y) is y
    with pytest.raises(XpuLaunchException, match=r"'x' has shape \(0, 256\), given \(0, 255\)"):
        op(weights, np.zeros((0, 255), np.float32), out=poisoned(0, 16))


def test_an_op_serves_every_number_of_rows(orchestrator):
    rng = np.random.default_rng()
    op = orchestrator.op("q5k_tile", n=24, k=512)
    for m in (1, 3, 1, 17):
        weights, x, fault = inputs(orchestrator, "q5k_tile", rng, m=m, n=24, k=512)
        y = poisoned(m, 24)
        op(weights, x, out=y)
        assert fault(y) == ""


class Lent:
    """A DLPack producer that is no numpy array."""

    def __init__(self, array):
        self.array = array

    @property
    def shape(self):
        return self.array.shape

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class Subclass(np.ndarray):
    def __array_finalize__(self, other):
        self.note = "mine"


def mapped(array):
    memory = np.frombuffer(mmap.mmap(-1, array.nbytes), array.dtype)
    memory[...] = array
    return memory


@pytest.mark.parametrize(
    "dress",
    [
        Lent,
        Interface,
        lambda array: array.view(Subclass),
        mapped,
        lambda array: array[None][0],
        lambda array: np.require(array, requirements="O")[:],
        lambda array: np.lib.stride_tricks.as_strided(array, array.shape, array.strides),
    ],
    ids=["dlpack", "interface", "subclass", "mapped", "view", "owned", "strided"],
)
def test_arrays_of_every_kind_are_taken_without_a_copy(toys, dress):
    n = 500
    rng = np.random.default_rng()
    x, out = dress(rng.standard_normal(n).astype(np.float32)), dress(np.full(n, np.nan, "f4"))
    kernel = toys.bind("toy", n=n)
    plain_x, plain_out = (getattr(each, "array", each) for each in (x, out))
    for _ in range(3):
        plain_x += 1
        plain_out[...] = np.nan
        assert kernel(x, out=out) is out
        np.testing.assert_allclose(plain_out, 3 * plain_x + 1, rtol=1e-5, atol=1e-5)


def test_a_file_is_read_where_it_lies_and_written_only_when_it_may_be(toys, tmp_path):
    x = np.random.default_rng().standard_normal(100).astype(np.float32)
    x.tofile(tmp_path / "x")
    np.full(100, np.nan, np.float32).tofile(tmp_path / "y")
    given = np.memmap(tmp_path / "x", np.float32, "r")
    kernel = toys.bind("toy", n=100)
    with pytest.raises(XpuLaunchException, match=r"'y'.*not writable"):
        kernel(given, out=np.memmap(tmp_path / "y", np.float32, "r"))
    out = np.memmap(tmp_path / "y", np.float32, "r+")
    kernel(given, out=out)
    out.flush()
    found = np.fromfile(tmp_path / "y", np.float32)
    np.testing.assert_allclose(found, 3 * x + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda x: x.astype(">f4"), "byte order"),
        (lambda x: x[::-1], "contiguous"),
        (lambda x: np.repeat(x, 2)[::2], "contiguous"),
        (lambda x: x[0], "shape (64,), given ()"),
        (lambda x: np.array(x[0]), "shape (64,), given ()"),
        (lambda x: x.astype(np.float64), "float64"),
        (lambda x: x.view(np.int32), "int32"),
        (lambda x: x.astype(object), "object"),
        (lambda x: x.reshape(1, -1), "(1, 64)"),
        (lambda x: np.broadcast_to(x[:1], x.shape), "contiguous"),
        (lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32), "aligned"),
        (lambda x: list(x), "list"),
        (lambda x: memoryview(x), "memoryview"),
        (lambda x: x.tobytes(), "bytes"),
    ],
)
def test_what_is_no_such_array_is_refused_and_nothing_is_written(toys, bad, words):
    x, y = np.ones(64, np.float32), np.full(64, np.nan, np.float32)
    with pytest.raises(XpuLaunchException) as error:
        toys.bind("toy", n=64)(bad(x), out=y)
    assert all(word in str(error.value) for word in ["toy 64", "'x'", words])
    assert np.isnan(y).all()


def test_threads_with_arrays_of_their_own_do_not_mix(orchestrator):
    op, faults = orchestrator.op("q4k_tile", n=32, k=256), []
    rng = np.random.default_rng()
    weights, _, _ = inputs(orchestrator, "q4k_tile", rng, m=1, n=32, k=256)
    prepared = orchestrator.prepare("q4k_tile", weights)
    exact = orchestrator.bind("q4k_tile", m=1, n=32, k=256)

    def work(seed):
        mine = np.random.default_rng(seed)
        for _ in range(40):
            m = int(mine.integers(1, 6))
            x = mine.standard_normal((m, 256), dtype=np.float32)
            y, one = poisoned(m, 32), poisoned(1, 32)
            op(prepared, x, out=y)
            exact(prepared, x[:1], out=one)
            if not np.isfinite(y).all() or np.abs(y[0] - one[0]).max() > 0.2 * np.abs(y).max():
                faults.append((m, y))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # since Python 3.12
def test_a_forked_child_calls_binds_and_tunes(tmp_path):
    config = toy.write_family(tmp_path, {"a": {"mode": 0}, "b": {"mode": toy.SLOW}})
    registry = toy.toy_registry()
    with Orchestrator(
        None, tuning="first-use", backend="cpu", config=config, registry=registry
    ) as one:
        kernel = one.bind("toy", n=3000)
        x, y = np.ones(3000, np.float32), np.full(3000, np.nan, np.float32)
        kernel(x, out=y)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                y[:] = np.nan
                kernel(x, out=y)
                other = np.full(2000, np.nan, np.float32)
                bound = one.bind("toy", n=2000)
                bound(x[:2000], out=other)
                status = 0 if (y == 4).all() and (other == 4).all() and bound.result.timed else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        # The parent's worker process and trials are still its own.
        assert one.bind("toy", n=2500).result.timed


def test_binding_and_calling_for_long_takes_no_memory(toys):
    op = toys.op("toy")

    def resident_mb():
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def run(sizes, calls):
        for n in sizes:
            op(np.ones(n, np.float32), out=np.empty(n, np.float32))
        kept = np.empty(64, np.float32)
        for _ in range(calls):
            op(np.ones(64, np.float32), out=kept)
            op(np.ones(64, np.float32), out=np.empty(64, np.float32))

    run(range(1, 101), 2000)
    before = resident_mb()
    run(range(101, 401), 20_000)
    # A bound kernel is a few kilobytes, and 40,000 dead arrays leave nothing.
    assert resident_mb() - before < 10
    assert len(op.kernel(64).calls.plans) <= 1


def test_what_is_bound_outlives_a_trim_and_the_next_trial_starts_anew(tmp_path, monkeypatch):
    trimmed = []
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.trim", lambda _: trimmed.append("once"))
    # Code that no other test has seen run, so that a worker process tries it.
    config = toy.write_family(
        tmp_path, {"a": {"mode": 0, "grain": 23}, "b": {"mode": 0, "grain": 41}}
    )
    x, y = np.ones(100, np.float32), np.empty(100, np.float32)
    with Orchestrator(
        None, tuning="first-use", backend="cpu", config=config, registry=toy.toy_registry()
    ) as one:
        op = one.op("toy")
        op(x, out=y)
        expected, process = y.copy(), one._trials._worker._process
        one.trim()
        one.trim()
        assert process.poll() is not None
        assert len(trimmed) == 2
        y.fill(-1)
        op(x, out=y)
        assert np.array_equal(y, expected)
        assert one.choose("toy", Problem(n=77)).source == "timed"


def test_a_closed_orchestrator_says_so_and_starts_nothing(tmp_path):
    config = toy.write_family(tmp_path, {"a": {"mode": 0}, "b": {"mode": 0, "grain": 32}})
    one = Orchestrator(
        None, tuning="first-use", backend="cpu", config=config, registry=toy.toy_registry()
    )
    op, kernel = one.op("toy"), one.bind("toy", n=100)
    member = kernel.member
    one.close()
    one.close()
    x, y = np.ones(100, np.float32), np.empty(100, np.float32)
    for use in (
        lambda: one.bind("toy", n=100),
        lambda: one.op("toy"),
        lambda: op(x, out=y),
        lambda: one.prepare("toy", x),
        lambda: one.choose("toy", Problem(n=9)),
        lambda: one.prewarm([("toy", {"n": 9})]),
        lambda: one.override("toy", "a"),
        lambda: one.considered("toy", Problem(n=9)),
    ):
        with pytest.raises(XpuLaunchException, match="'toy': this orchestrator is closed"):
            use()
    assert one._trials._worker._process is None
    assert kernel.member == member


def test_sizes_are_the_same_problem_in_any_order_and_of_any_integer_type(orchestrator):
    first = orchestrator.bind("q4k_tile", m=2, n=16, k=256)
    assert orchestrator.bind("q4k_tile", k=256, n=16, m=2) is first
    assert orchestrator.bind("q4k_tile", m=np.int32(2), n=np.uint8(16), k=np.int64(256)) is first
    assert orchestrator.bind("q4k_tile", memory="warm", m=2, n=16, k=256) is first
    assert orchestrator.bind("q4k_tile", memory="cold", m=2, n=16, k=256) is not first


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"m": 2, "n": 16}, "the problem's sizes are m, n, k"),
        ({"m": 2, "n": 16, "k": 255}, "k = 255"),
        ({"m": 2, "n": 16, "k": 0}, "k = 0"),
        ({"m": [2], "n": 16, "k": 256}, "'m' is a whole number"),
        ({"m": 2.5, "n": 16, "k": 256}, "'m' is a whole number"),
        ({"m": -2, "n": 16, "k": 256}, "'m' is -2"),
        ({"m": 2**60, "n": 16, "k": 256}, "'m' is"),
    ],
)
def test_sizes_that_cannot_be_served_are_refused(orchestrator, sizes, words):
    with pytest.raises(XpuConfigError) as error:
        orchestrator.bind("q4k_tile", **sizes)
    assert words in str(error.value)


def test_a_huge_problem_binds_and_takes_no_array_that_is_not_that_huge(orchestrator):
    kernel = orchestrator.bind("q4k_tile", m=2**40, n=16, k=256)
    with pytest.raises(XpuLaunchException, match="1099511627776"):
        kernel(np.zeros((16, 144), np.uint8), np.zeros((1, 256), "f4"), out=poisoned(1, 16))
