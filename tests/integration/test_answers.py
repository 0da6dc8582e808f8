"""Which member serves: overrides, buckets, holds, events, bad members, answers of before."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import attrs
import first_party
import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem, XpuBuildError, XpuConfigError, XpuLaunchException
from xpu.choice import Worker

MEMBERS = {"slow": {"mode": toy.SLOW}, "fast": {"mode": toy.RIGHT, "grain": 512}}
SIZES = {"n": 20_000}


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch, quiet_machine):
    monkeypatch.setattr("xpu.choice.worker.JOB_DEADLINE_S", 3.0)


@pytest.fixture
def make(tmp_path):
    made = []

    def orchestrator(members=MEMBERS, *, store=None, keys=None, cache="build", **more):
        config = toy.write_family(tmp_path, members, **(keys or {}))
        one = Orchestrator(
            store,
            backend="cpu",
            config=config,
            registry=toy.toy_registry(),
            build_cache=tmp_path / cache,
            **more,
        )
        made.append(one)
        return one

    yield orchestrator
    for one in made:
        one.close()


def served(kernel):
    return kernel.member, kernel.result.source


def built(tmp_path, cache="build"):
    return len(list((tmp_path / cache).glob("*/*/code")))


def statuses(result):
    return {member.name: member.status for member in result.members}


# Overrides


def test_a_variable_that_is_gone_forces_nobody(make, monkeypatch):
    one = make(tuning="first-use")
    monkeypatch.setenv("XPU_SHAPE_TOY", "slow")
    assert served(one.bind("toy", **SIZES)) == ("slow", "override")
    monkeypatch.delenv("XPU_SHAPE_TOY")
    one.clear_override("toy")  # binds anew
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")


def test_the_variable_wins_over_an_override(make, monkeypatch):
    one = make(tuning="off")
    one.override("toy", "fast")
    monkeypatch.setenv("XPU_SHAPE_TOY", "slow")
    assert served(one.bind("toy", **SIZES)) == ("slow", "override")


@pytest.mark.parametrize("tuning", ["off", "stored", "first-use"])
def test_an_override_wins_out_of_bucket_and_beyond_the_cap(make, tuning):
    members = {**MEMBERS, "third": {"mode": toy.RIGHT}}
    keys = {"buckets": '{ n = "linear_64" }', "cap": 1}
    one = make(members, tuning=tuning, keys=keys)
    one.override("toy", "third")
    for n in (20_000, 64):
        kernel = one.bind("toy", n=n)
        assert served(kernel) == ("third", "override")
        assert kernel.result.problem == str(n)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("slwo", ["slwo", "did you mean 'slow'"]),
        ("wdie", ["wdie", "did you mean 'wide'", "nocompile"]),
        ("nocompile", ["nocompile", "is failed", "does not compile", "slow"]),
        ("wide", ["wide", "R9 (too wide)", "needs 4096", "limit 1024"]),
        ("null", ["null", "is crashed", "SIGSEGV", "delete"]),
    ],
)
def test_an_override_that_cannot_serve_raises_until_it_is_cleared(make, tmp_path, member, words):
    members = {
        **MEMBERS,
        "nocompile": {"mode": toy.NO_COMPILE},
        "null": {"mode": toy.NULL_WRITE},
        "wide": {"mode": toy.RIGHT, "grain": 4096},
    }
    (tmp_path / "rules.toml").write_text(
        '[[rules]]\nid = "R9"\ntitle = "too wide"\nneed = "member.grain"\nlimit = 1024\n'
        'prune_when = "need > limit"\n'
    )
    toy.write_family(tmp_path, members)
    with Orchestrator(
        None,
        tuning="off",
        backend="cpu",
        config=tmp_path,
        registry=toy.toy_registry(),
        build_cache=tmp_path / "build",
    ) as one:
        if member == "null":
            one.choose("toy", Problem(n=100))
        one.override("toy", member)
        with pytest.raises(XpuLaunchException) as error:
            one.bind("toy", **SIZES)
        assert all(word in str(error.value) for word in words)
        proposed = str(error.value).partition("choose from: ")[2]
        assert not {"nocompile", "wide", member} & set(proposed.split(", "))
        one.clear_override("toy")
        assert one.bind("toy", **SIZES).member == "slow"


def test_an_override_during_a_trial_is_not_forgotten_when_the_trial_ends(make, monkeypatch):
    one, inside, may_end = make(tuning="first-use"), threading.Event(), threading.Event()
    real = one._trials.timer.time_ns

    def time_ns(*given, **named):
        inside.set()
        may_end.wait(10)
        return real(*given, **named)

    monkeypatch.setattr(one._trials.timer, "time_ns", time_ns)
    found = []
    thread = threading.Thread(target=lambda: found.append(one.bind("toy", **SIZES)))
    thread.start()
    inside.wait(10)
    assert not one.settled
    assert not one.wait_settled(0.01)
    one.override("toy", "slow")
    may_end.set()
    thread.join()
    assert served(found[0]) == ("fast", "timed")  # asked before
    assert served(one.bind("toy", **SIZES)) == ("slow", "override")
    assert one.settled


# Defaults, caps and dialects


@pytest.mark.parametrize(
    ("default", "member"), [('{ c = "third" }', "third"), ('{ simt = "third" }', "slow")]
)
def test_the_default_of_the_dialect_serves_even_behind_the_cap(make, tmp_path, default, member):
    members = {**MEMBERS, "third": {"mode": toy.RIGHT}}
    one = make(members, tuning="off", keys={"cap": 1, "default": default})
    assert served(one.bind("toy", **SIZES)) == (member, "default")
    assert built(tmp_path) == 1


def test_members_beyond_the_cap_are_listed_and_not_built(make, tmp_path):
    members = {**MEMBERS, "third": {"mode": toy.RIGHT}, "fourth": {"mode": toy.RIGHT}}
    result = make(members, tuning="first-use", keys={"cap": 2}).bind("toy", **SIZES).result
    assert statuses(result)["third"] == statuses(result)["fourth"] == "capped"
    assert built(tmp_path) == 2


def test_members_of_another_dialect_are_no_candidates(make, tmp_path):
    config = toy.write_family(tmp_path, MEMBERS)
    config.write_text(config.read_text() + 'dialects = ["simt"]\n')
    with Orchestrator(
        None, tuning="first-use", backend="cpu", config=config, registry=toy.toy_registry()
    ) as one:
        kernel = one.bind("toy", **SIZES)
        assert served(kernel) == ("slow", "only")
        assert list(statuses(kernel.result)) == ["slow"]
        one.override("toy", "fast")
        with pytest.raises(XpuLaunchException, match="'fast' is no member"):
            one.bind("toy", **SIZES)


# Buckets


def test_a_member_that_fits_the_bucket_and_not_the_sizes_gives_way(tmp_path):
    # 17,000 goes to 32,768; the rule is about the real size.
    toy.write_family(tmp_path, MEMBERS, buckets='{ n = "pow2_up" }')
    (tmp_path / "rules.toml").write_text(
        '[[rules]]\nid = "R9"\ntitle = "whole grains"\nneed = "problem.n % member.grain"\n'
        'limit = 0\nprune_when = "need > limit"\n'
    )
    with Orchestrator(
        None,
        tuning="first-use",
        backend="cpu",
        config=tmp_path,
        registry=toy.toy_registry(),
        build_cache=tmp_path / "build",
    ) as one:
        fits, other = one.bind("toy", n=512 * 40), one.bind("toy", n=64 * 300)
        assert (fits.member, fits.result.problem) == ("fast", "32768")
        assert other.member == "slow"
        for kernel in (fits, other):
            n = kernel.problem.n
            x, y = np.ones(n, np.float32), np.full(n, np.nan, np.float32)
            kernel(x, out=y)
            assert (y == 4).all()
        with pytest.raises(XpuLaunchException, match=r"whole grains.*fast|fast.*whole grains"):
            one.bind("toy", n=513 * 41)


def test_out_of_bucket_the_default_serves_with_one_warning(make, caplog):
    heard = []
    one = make(tuning="first-use", keys={"buckets": '{ n = "linear_64" }'}, listener=heard.append)
    for _ in range(3):
        assert served(one.bind("toy", n=50_000)) == ("slow", "default")
        one.clear_override("toy")
    assert caplog.text.count("outside the family's buckets") == 1
    assert {(event.kind, event.text) for event in heard} == {
        ("default", "outside the family's buckets")
    }


# Holding, and what listeners hear


def test_a_hold_of_another_thread_builds_no_more_than_the_default(make, tmp_path):
    heard = []
    one = make(tuning="first-use", listener=heard.append)
    held, may_end = threading.Event(), threading.Event()

    def hold():
        with one.hold():
            held.set()
            may_end.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    assert served(one.bind("toy", **SIZES)) == ("slow", "default")
    assert not one.bind("toy", **SIZES).is_final
    assert built(tmp_path) == 1
    assert {event.text for event in heard} == {"tuning is held"}
    may_end.set()
    thread.join()
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")


def test_a_stored_answer_serves_under_hold(make, tmp_path):
    make(store=tmp_path / "store", tuning="first-use").bind("toy", **SIZES)
    one = make(store=tmp_path / "store", tuning="first-use")
    with one.hold():
        assert served(one.bind("toy", **SIZES)) == ("fast", "stored")
        assert one.choose("toy", Problem(n=99)).source == "default"


def test_who_meets_a_trial_of_another_thread_hears_that_the_default_serves(make, monkeypatch):
    heard = []
    one = make(tuning="first-use", listener=heard.append)
    inside, may_end = threading.Event(), threading.Event()
    real = one._trials.timer.time_ns

    def time_ns(*given, **named):
        inside.set()
        may_end.wait(10)
        return real(*given, **named)

    monkeypatch.setattr(one._trials.timer, "time_ns", time_ns)
    op = one.op("toy")
    thread = threading.Thread(target=one.bind, args=("toy",), kwargs=SIZES)
    thread.start()
    inside.wait(10)
    x, y = np.ones(20_000, np.float32), np.full(20_000, np.nan, np.float32)
    for _ in range(100):
        op(x, out=y)
    is_final = one.bind("toy", **SIZES).is_final
    may_end.set()
    thread.join()
    assert (y == 4).all()
    assert not is_final
    # An op does not ask at every call.
    assert 2 <= len(heard) < 50
    assert {(event.kind, event.text) for event in heard} == {
        ("default", "another thread is timing this")
    }
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")


def test_a_listener_that_fails_costs_nobody_a_kernel(make, tmp_path, caplog):
    def listener(event):
        raise ValueError(f"no {event.kind}")

    one = make(listener=listener)
    assert served(one.bind("toy", **SIZES)) == ("slow", "default")
    assert "ValueError: no default" in caplog.text
    make(store=tmp_path / "store", tuning="first-use").bind("toy", **SIZES)
    changed = {**MEMBERS, "fast": {"mode": toy.RIGHT, "grain": 1024}}
    one = make(changed, store=tmp_path / "store", tuning="first-use", listener=listener)
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")
    assert "ValueError: no dropped" in caplog.text


def test_a_listener_may_bind(make, tmp_path):
    make(store=tmp_path / "store", tuning="first-use").bind("toy", **SIZES)
    bound = []

    def listener(event):
        if event.kind == "dropped":
            bound.append(served(one.bind("toy", n=4000)))

    changed = {**MEMBERS, "fast": {"mode": toy.RIGHT, "grain": 1024}}
    one = make(changed, store=tmp_path / "store", tuning="first-use", listener=listener)
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")
    assert [source for _, source in bound] == ["timed"]


def test_an_answer_beside_others_work_serves_the_op_and_is_not_kept(make, monkeypatch):
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: 0.9)
    one = make(tuning="first-use")
    op, times = one.op("toy"), []
    real = one._service._choice.choose
    monkeypatch.setattr(
        one._service._choice, "choose", lambda *a, **k: times.append(1) or real(*a, **k)
    )
    x, y = np.ones(20_000, np.float32), np.full(20_000, np.nan, np.float32)
    for _ in range(20):
        op(x, out=y)
    assert len(times) == 1
    assert not one.bind("toy", **SIZES).is_final
    assert len(times) == 2


# Bad members


def test_an_answer_found_beside_bad_members_holds_at_the_next_start(make, tmp_path):
    members = {
        **MEMBERS,
        "wrong": {"mode": toy.WRONG},
        "null": {"mode": toy.NULL_WRITE},
        "nocompile": {"mode": toy.NO_COMPILE},
    }
    first = make(members, store=tmp_path / "store", tuning="first-use").bind("toy", **SIZES)
    assert served(first) == ("fast", "timed")
    for tuning in ("first-use", "stored"):
        heard = []
        one = make(members, store=tmp_path / "store", tuning=tuning, listener=heard.append)
        kernel = one.bind("toy", **SIZES)
        assert (served(kernel), kernel.result.note) == (("fast", "stored"), "")
        assert heard == []
        found = statuses(kernel.result)
        assert (found["wrong"], found["null"], found["nocompile"]) == ("wrong", "crashed", "failed")


def test_under_stored_nothing_that_was_never_compiled_is_compiled(make, tmp_path):
    make(store=tmp_path / "store", tuning="first-use").bind("toy", **SIZES)
    for code in (tmp_path / "build").glob("*/*/code"):
        shutil.rmtree(code.parent)
    one = make(store=tmp_path / "store")
    assert served(one.bind("toy", **SIZES)) == ("slow", "default")
    assert built(tmp_path) == 1


def test_a_damaged_build_is_made_again(make, tmp_path):
    make().considered("toy", Problem(**SIZES))
    for code in (tmp_path / "build").glob("*/*/code"):
        code.write_bytes(b"\x7fELF" + code.read_bytes()[5:])
    kernel = make(tuning="off").bind("toy", **SIZES)
    x, y = np.ones(20_000, np.float32), np.full(20_000, np.nan, np.float32)
    kernel(x, out=y)
    assert (y == 4).all()


def test_the_cache_may_vanish_at_any_time(make, tmp_path):
    one = make(tuning="first-use")
    x, y = np.ones(20_000, np.float32), np.full(20_000, np.nan, np.float32)
    for n in (20_000, 19_999, 20_000):
        kernel = one.bind("toy", n=n)
        shutil.rmtree(tmp_path / "build", ignore_errors=True)
        kernel(x[:n], out=y[:n])
    assert (y == 4).all()
    one.clear_override("toy")
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")


def test_processes_that_build_the_same_at_once_leave_one_whole_build(tmp_path):
    toy.write_family(tmp_path, MEMBERS)
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
import numpy as np, toy_family as toy
from xpu import Orchestrator
one = Orchestrator(None, tuning="off", backend="cpu", config={str(tmp_path)!r},
                   registry=toy.toy_registry(), build_cache={str(tmp_path / "build")!r})
for n in range(50, 60):
    x, y = np.ones(n, np.float32), np.full(n, np.nan, np.float32)
    one.bind("toy", n=n)(x, out=y)
    assert (y == 4).all()
"""
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert built(tmp_path) == 1
    assert not list((tmp_path / "build").glob("*/.*"))


def test_a_problem_too_large_to_try_is_served_untimed(make, monkeypatch):
    heard = []
    one = make(tuning="first-use", listener=heard.append)
    monkeypatch.setattr(
        one._device, "facts", attrs.evolve(one.facts, memory_bytes=2 * 4 * 20_000 * 8 - 1)
    )
    assert served(one.bind("toy", **SIZES)) == ("slow", "default")
    [text] = [event.text for event in heard]
    assert text.startswith("it is too large to be timed: ")
    assert "one part in 8 of the device's memory" in text
    assert served(one.bind("toy", n=19_999)) == ("fast", "timed")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"x": np.ones(3, np.float32)}, "'x' is float32 (50,), given float32 (3,)"),
        ({"x": np.ones(50)}, "'x' is float32 (50,), given float64 (50,)"),
        ({"z": np.ones(50, np.float32)}, "no argument that is read is called 'z'"),
        ({"y": np.ones(50, np.float32)}, "no argument that is read is called 'y'"),
    ],
)
def test_data_that_a_launch_would_read_beyond_is_refused(make, data, words):
    one = make(tuning="off")
    with pytest.raises(XpuConfigError) as error:
        one.choose("toy", Problem(n=50), data=data)
    assert words in str(error.value)
    assert one.choose("toy", Problem(n=50), data={"x": np.ones(50, np.float32)}).timed


def test_a_design_whose_data_fail_blames_no_code(make, monkeypatch, tmp_path):
    def data(self, problem, constants, rng):
        raise MemoryError("no room for this")

    with monkeypatch.context() as patch:
        patch.setattr(toy.Toy, "data", data)
        with pytest.raises(XpuLaunchException, match=r"slow, fast: failed \(MemoryError: no room"):
            make(tuning="first-use").bind("toy", **SIZES)
    assert served(make(tuning="first-use").bind("toy", **SIZES)) == ("fast", "timed")


@pytest.fixture
def bad_preparation(monkeypatch):
    def make_bad(text):
        first_party.plugin("kquant")
        from xpu_family_kquant.design import BlocksToGroups

        real = BlocksToGroups.source
        monkeypatch.setattr(
            BlocksToGroups,
            "source",
            lambda self, dialect: attrs.evolve(real(self, dialect), text=text),
        )

    return make_bad


def test_a_preparation_that_does_not_compile_is_named(bad_preparation):
    bad_preparation("#error nothing here")
    with Orchestrator(None, tuning="first-use", backend="cpu") as one:
        sizes = {"m": 1, "n": 16, "k": 256}
        for use in (
            lambda: one.bind("q4k_matvec", **sizes),
            lambda: one.choose("q4k_matvec", Problem(**sizes)),
            lambda: one.prepare("q4k_matvec", np.zeros((16, 144), np.uint8)),
        ):
            with pytest.raises(XpuBuildError, match=r"q4k_matvec\.prepare.*nothing here"):
                use()


def test_a_preparation_that_crashes_is_run_once_and_blames_no_member(bad_preparation, monkeypatch):
    jobs, real = [], Worker.run
    monkeypatch.setattr(
        Worker, "run", lambda self, job, **how: jobs.append(job) or real(self, job, **how)
    )
    bad_preparation('#include "xpu_c.h"\nXPU_KERNEL { *(volatile int *)0 = 1; }')
    for words in (r": failed \(the weight preparation crashed", "preparation crashed.*delete"):
        with (
            Orchestrator(None, tuning="first-use", backend="cpu") as one,
            pytest.raises(XpuLaunchException, match=words),
        ):
            one.bind("q4k_matvec", m=1, n=16, k=256)
    with (
        Orchestrator(None, tuning="off", backend="cpu") as one,
        pytest.raises(XpuLaunchException, match="preparation crashed"),
    ):
        one.prepare("q4k_matvec", np.zeros((16, 144), np.uint8))
    assert len(jobs) == 1


# Interruptions and company


def test_an_interrupted_trial_leaves_all_as_it_was(make, monkeypatch):
    one = make(tuning="first-use")
    real, calls = one._trials.timer.time_ns, []

    def time_ns(*given, **named):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(one._trials.timer, "time_ns", time_ns)
    with pytest.raises(KeyboardInterrupt):
        one.bind("toy", **SIZES)
    assert one.settled
    assert served(one.bind("toy", **SIZES)) == ("fast", "timed")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # since Python 3.12
def test_a_child_forked_during_a_trial_tunes_for_itself(make, monkeypatch):
    one, own = make(tuning="first-use"), make(tuning="first-use")
    inside, may_end = threading.Event(), threading.Event()

    def time_ns(*given, **named):
        inside.set()
        may_end.wait(10)
        return 1000.0

    monkeypatch.setattr(one._trials.timer, "time_ns", time_ns)
    thread = threading.Thread(target=one.bind, args=("toy",), kwargs=SIZES)
    thread.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if served(own.bind("toy", **SIZES)) == ("fast", "timed") else 2
        finally:
            os._exit(status)
    until = time.monotonic() + 10
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.02)
    may_end.set()
    thread.join()
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


def test_orchestrators_of_one_process_never_time_at_once(make, tmp_path, monkeypatch):
    ones = [make(tuning="first-use") for _ in range(4)]
    running, faults = [], []

    def watched(real):
        def time_ns(*given, **named):
            running.append(threading.get_ident())
            if len(set(running)) > 1:
                faults.append(list(running))
            time.sleep(0.001)
            value = real(*given, **named)
            running.remove(threading.get_ident())
            return value

        return time_ns

    for one in ones:
        monkeypatch.setattr(one._trials.timer, "time_ns", watched(one._trials.timer.time_ns))
    threads = [threading.Thread(target=one.bind, args=("toy",), kwargs=SIZES) for one in ones]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [served(one.bind("toy", **SIZES)) for one in ones] == [("fast", "timed")] * 4


def test_orchestrators_that_share_a_store_tune_once(make, tmp_path, caplog):
    ones = [make(store=tmp_path / "store", tuning="first-use") for _ in range(3)]
    found = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(served(one.bind("toy", **SIZES))))
        for one in ones
    ]
    with caplog.at_level(logging.WARNING, "xpu"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [("fast", "stored"), ("fast", "stored"), ("fast", "timed")]
    assert caplog.text == ""
