"""The orchestrator on the CPU: policies, overrides, calls, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem, XpuConfigError, XpuLaunchException

pytestmark = pytest.mark.usefixtures("quiet_machine")
MEMBERS = {
    "slow": {"mode": toy.SLOW},
    "fast": {"mode": toy.RIGHT, "grain": 512},
}
SIZES = {"n": 20_000}


@pytest.fixture
def make(tmp_path):
    made = []

    def orchestrator(members=MEMBERS, *, store=None, keys=None, **more):
        config = toy.write_family(tmp_path, members, **(keys or {}))
        one = Orchestrator(
            store,
            backend="cpu",
            config=config,
            registry=toy.toy_registry(),
            build_cache=tmp_path / "build",
            **more,
        )
        made.append(one)
        return one

    yield orchestrator
    for one in made:
        one.close()


def arrays(n=20_000):
    rng = np.random.default_rng()
    return rng.standard_normal(n).astype(np.float32), np.full(n, np.nan, np.float32)


def test_off_serves_the_first_member_and_builds_no_other(make, tmp_path):
    kernel = make(tuning="off").bind("toy", **SIZES)
    assert (kernel.member, kernel.result.source) == ("slow", "default")
    assert len(list((tmp_path / "build").glob("*/*/code"))) == 1


def test_stored_is_the_default_policy_and_falls_back_to_the_default(make, tmp_path):
    heard = []
    one = make(store=tmp_path / "store", listener=heard.append)
    assert one.bind("toy", **SIZES).result.source == "default"
    assert [(event.kind, event.family, event.member) for event in heard] == [
        ("default", "toy", "slow")
    ]
    assert len(list((tmp_path / "build").glob("*/*/code"))) == 1


def test_first_use_times_once_and_a_later_process_recalls(make, tmp_path):
    one = make(store=tmp_path / "store", tuning="first-use")
    first = one.bind("toy", **SIZES)
    assert (first.member, first.result.source) == ("fast", "timed")
    assert first.result.stored
    assert one.bind("toy", **SIZES) is first
    later = make(store=tmp_path / "store").bind("toy", **SIZES)
    assert (later.member, later.result.source) == ("fast", "stored")


def test_changing_one_member_times_again_and_reports_the_dropped_answer(make, tmp_path):
    make(store=tmp_path / "store", tuning="first-use").bind("toy", **SIZES)
    heard = []
    changed = {**MEMBERS, "fast": {"mode": toy.RIGHT, "grain": 1024}}
    one = make(changed, store=tmp_path / "store", tuning="first-use", listener=heard.append)
    result = one.bind("toy", **SIZES).result
    assert result.source == "timed"
    assert "fast" in result.note
    assert [event.kind for event in heard] == ["dropped"]


def test_without_a_store_the_orchestrator_still_remembers(make):
    one = make(tuning="first-use")
    first = one.bind("toy", **SIZES)
    one._binder.forget()
    again = one.bind("toy", **SIZES)
    assert (again.member, again.result.source, again.result.timed) == ("fast", "timed", False)
    assert first.result.timed


def test_environment_asks_for_first_use_and_forces_members(make, monkeypatch):
    monkeypatch.setenv("XPU_AUTOTUNE", "1")
    assert make().bind("toy", **SIZES).result.source == "timed"
    monkeypatch.setenv("XPU_SHAPE_TOY", "slow")
    forced = make(tuning="off").bind("toy", **SIZES)
    assert (forced.member, forced.result.source) == ("slow", "override")
    monkeypatch.setenv("XPU_SHAPE_TOY", "slwo")
    with pytest.raises(XpuLaunchException, match="slwo"):
        make(tuning="off").bind("toy", **SIZES)
    monkeypatch.setenv("XPU_AUTOTUNE", "yes")
    with pytest.raises(XpuConfigError, match="XPU_AUTOTUNE='yes'"):
        make()


def test_override_serves_until_cleared_also_through_an_op(make):
    one = make(tuning="off")
    op = one.op("toy")
    x, y = arrays()
    op(x, out=y)
    assert op.kernel(20_000).member == "slow"
    one.override("toy", "fast")
    assert op.kernel(20_000).member == "fast"
    assert op.kernel(20_000).result.source == "override"
    one.clear_override("toy")
    assert op.kernel(20_000).member == "slow"


def test_hold_serves_the_default_untimed_and_asks_again_after(make):
    one = make(tuning="first-use")
    with one.hold():
        assert one.bind("toy", **SIZES).result.source == "default"
    assert one.bind("toy", **SIZES).result.source == "timed"
    assert one.settled


def test_results_are_right_and_a_second_call_reuses_the_plan(make):
    kernel = make(tuning="off").bind("toy", n=777)
    x, y = arrays(777)
    for _ in range(20):
        y[:] = np.nan
        assert kernel(x, out=y) is y
        np.testing.assert_allclose(y, 3 * x + 1, rtol=1e-5, atol=1e-5)
    assert len(kernel.calls.plans) == 1


def test_an_array_that_takes_a_dead_ones_place_is_not_mistaken_for_it(make):
    kernel = make(tuning="off").bind("toy", n=64)
    for value in range(200):
        x = np.full(64, value, np.float32)
        y = np.zeros(64, np.float32)
        kernel(x, out=y)
        assert (y == 3 * value + 1).all()
        del x, y


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda x, y: ((x[:-1],), y), ["'x'", "(777,)", "(776,)"]),
        (lambda x, y: ((x.astype(np.float64),), y), ["'x'", "float32", "float64"]),
        (lambda x, y: ((np.zeros(1554, np.float32)[::2],), y), ["'x'", "contiguous"]),
        (lambda x, y: ((x,), y[:0]), ["'y'", "(777,)", "(0,)"]),
        (lambda x, y: ((x, x), y), ["x", "out="]),
        (lambda x, y: ((x,), x), ["'y'", "overlaps", "'x'"]),
        (lambda x, y: ((object(),), y), ["'x'", "object"]),
        (lambda x, y: ((None,), y), ["'x'"]),
    ],
)
def test_a_wrong_array_is_refused_by_name_and_nothing_is_written(make, bad, words):
    kernel = make(tuning="off").bind("toy", n=777)
    x, y = arrays(777)
    inputs, out = bad(x, y)
    with pytest.raises(XpuLaunchException) as error:
        kernel(*inputs, out=out)
    assert all(word in str(error.value) for word in ["toy 777", *words])
    assert np.isnan(y).all()


def test_a_read_only_result_is_refused(make):
    kernel = make(tuning="off").bind("toy", n=8)
    x, y = arrays(8)
    y.flags.writeable = False
    with pytest.raises(XpuLaunchException, match=r"'y'.*(read-only|writ)"):
        kernel(x, out=y)


def test_an_empty_problem_returns_at_once(make):
    kernel = make(tuning="first-use").bind("toy", n=0)
    empty = np.zeros(0, np.float32)
    assert kernel(empty, out=empty.copy()).size == 0
    assert not kernel.result.timed


@pytest.mark.parametrize(
    ("sizes", "words"),
    [({}, ["n"]), ({"m": 3}, ["toy", "n", "m"]), ({"n": -1}, ["n", "-1"]), ({"n": 1.5}, ["1.5"])],
)
def test_wrong_sizes_are_refused_by_name(make, sizes, words):
    with pytest.raises(XpuConfigError) as error:
        make(tuning="off").bind("toy", **sizes)
    assert all(word in str(error.value) for word in words)


def test_unknown_names_give_the_nearest(make):
    one = make(tuning="off")
    with pytest.raises(XpuConfigError, match="did you mean 'toy'"):
        one.bind("tay", n=1)
    with pytest.raises(XpuConfigError, match="did you mean 'first-use'"):
        make(tuning="first_use")
    with pytest.raises(XpuConfigError, match="did you mean 'cpu'"):
        Orchestrator(backend="cpo", registry=toy.toy_registry())


def test_threads_that_meet_at_first_use_get_one_trial_and_right_results(make, tmp_path):
    one = make(store=tmp_path / "store", tuning="first-use")
    start, sources, faults = threading.Barrier(6), [], []

    def work():
        x, y = arrays()
        start.wait()
        try:
            kernel = one.bind("toy", **SIZES)
            sources.append(kernel.result.source)
            for _ in range(20):
                y[:] = np.nan
                kernel(x, out=y)
                np.testing.assert_allclose(y, 3 * x + 1, rtol=1e-5, atol=1e-5)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sources.count("timed") == 1
    assert one.wait_settled(5)
    assert one.bind("toy", **SIZES).result.member == "fast"


def test_bucketed_sizes_share_an_answer_and_out_of_range_serves_the_default(make, caplog):
    keys = {"buckets": '{ n = "pow2_up" }'}
    one = make(tuning="first-use", keys=keys)
    first = one.bind("toy", n=17_000).result
    assert first.problem == "32768"
    assert one.bind("toy", n=30_000).result.member == first.member
    assert one.bind("toy", n=30_000).result.problem == "32768"


def test_prewarm_then_bind_serves_the_answer_under_every_policy(make):
    one = make(tuning="stored")
    assert one.bind("toy", **SIZES).result.source == "default"
    [result] = one.prewarm([("toy", SIZES)])
    assert result.source == "timed"
    assert one.bind("toy", **SIZES).member == "fast"


def test_cold_and_warm_answers_are_kept_apart(make):
    one = make(tuning="first-use")
    warm = one.bind("toy", **SIZES).result
    cold = one.bind("toy", memory="cold", **SIZES).result
    assert (warm.memory, cold.memory) == ("warm", "cold")
    assert one.choose("toy", Problem(**SIZES)).memory == "warm"
