"""The check of real code: on poisoned outputs, on copies, in a worker until it ran well."""

from __future__ import annotations

import hashlib
import weakref

import attrs
import numpy as np
import pytest
from scripted_backend import ScriptedBackend, ScriptedDevice

from xpu.choice import Arm, KernelTrial, MemberFault, Proofs, Subject, Worker
from xpu.measure import KernelTimer
from xpu.model import Problem, ShapeCandidate
from xpu.registry import Owner, guarded
from xpu.spec import Argument, Design, KernelSource, Launch, Preparation, TimerTier


class PlusOne(Design):
    """y = x + 1 over n floats."""

    name = "plus_one"
    parameters = ()
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "")

    def shapes(self, problem, constants):
        return {argument.name: (problem.n,) for argument in self.arguments}

    def data(self, problem, constants, rng):
        return {"x": rng.standard_normal(problem.n).astype(np.float32)}

    def verify(self, problem, constants, inputs, outputs, rng):
        self.seen = (dict(inputs), dict(outputs))
        error = np.abs(outputs["y"] - (inputs["x"] + np.float32(1))).max(initial=0)
        return "" if error == 0 else f"largest error {error:g}"


class InPlace(PlusOne):
    """y becomes y + 1."""

    arguments = (Argument("y", "float32", "update"),)

    def data(self, problem, constants, rng):
        return {"y": rng.standard_normal(problem.n).astype(np.float32)}

    def verify(self, problem, constants, inputs, outputs, rng):
        return "" if (outputs["y"] == inputs["y"] + 1).all() else "it is not one more"


class Whole(PlusOne):
    arguments = (Argument("x", "float32", "read"), Argument("y", "int32", "write"))

    def verify(self, problem, constants, inputs, outputs, rng):
        return "all ones" if (outputs["y"] == -1).all() else "other numbers"


class Copied(Preparation):
    argument = "x"

    def source(self, dialect):
        return KernelSource(dialect, "")

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4 * raw_shape[0]


class Prepared(PlusOne):
    preparation = Copied()


class Clock(TimerTier):
    """Each launch takes a microsecond."""

    name = "fake"

    def bracket_ns(self, launches):
        for launch in launches:
            launch()
        return 1000.0 * len(launches)


N = 40


@pytest.fixture(scope="module")
def worker():
    one = Worker(ScriptedBackend(), 0, deadline_s=0.5)
    yield one
    one.close()


@pytest.fixture
def jobs(worker, monkeypatch):
    """What went to the worker, in order."""
    real, seen = worker.run, []

    def run(job, **how):
        seen.append([step.code.read_text() for step in job.steps])
        return real(job, **how)

    monkeypatch.setattr(worker, "run", run)
    return seen


@pytest.fixture
def trial(tmp_path, worker, jobs):
    device = ScriptedDevice()

    def arm(script):
        code = tmp_path / hashlib.sha256(script.encode()).hexdigest()
        code.write_text(script)
        return Arm(code, "entry", code.name, Launch(), (N,))

    def make(scripts, design=None, *, preparation=None, memory="warm", n=N):
        design = design or PlusOne()
        rng = np.random.default_rng()
        problem = Problem(n=n)
        prepare = None if preparation is None else arm(preparation)
        made = KernelTrial(
            device,
            Subject(design, {}, problem, design.data(problem, {}, rng), prepare, 4 * n),
            {name: arm(script) for name, script in scripts.items()},
            proofs=Proofs(tmp_path / "proofs", "here"),
            worker=worker,
            timer=KernelTimer(Clock()),
            rng=rng,
            memory=memory,
        )
        made.device = device
        made.proof = lambda script: Proofs(tmp_path / "proofs", "here").find(arm(script).code_hash)
        return made

    return make


def check(trial, name="a"):
    return trial.check(ShapeCandidate(name))


def fault(trial, name="a"):
    with pytest.raises(MemberFault) as error:
        check(trial, name)
    return error.value.status, error.value.note


def test_code_runs_in_the_worker_until_it_ran_well_and_then_here(trial, jobs):
    one = trial({"a": "add"})
    assert check(one)
    assert (jobs, one.device.ran) == ([["add"]], [])
    assert one.proof("add").status == "well"
    later = trial({"a": "add"})
    assert check(later)
    assert len(jobs) == 1
    assert [script for script, _ in later.device.ran] == ["add"]


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("wrong", "wrong", "largest error"),
        ("add 3", "wrong", "3 elements of 'y' were not written"),
        ("signal SIGSEGV", "crashed", "SIGSEGV"),
        ("sleep 60", "hung", "0.5 s"),
    ],
)
def test_bad_code_is_run_once_and_never_again(trial, jobs, script, status, words):
    for made in (trial({"a": script}), trial({"a": script})):
        found = fault(made)
        assert found[0] == status
        assert words in found[1]
        assert made.device.ran == []
    assert jobs == [[script]]
    assert check(trial({"a": script, "b": "add"}), "b")


@pytest.mark.parametrize("script", ["raise no scratch memory", "signal SIGKILL"])
def test_what_may_be_no_fault_of_the_code_is_tried_again(trial, jobs, script):
    for _ in range(2):
        assert fault(trial({"a": script}))[0] == "failed"
    assert len(jobs) == 2
    assert trial({}).proof(script) is None


def test_code_that_ran_well_and_is_wrong_now_is_not_run_again(trial, jobs):
    # It ran well on other data: the proof is about running, the check about numbers.
    one = trial({"a": "add"})
    check(one)
    other = trial({"a": "add"}, type("Two", (PlusOne,), {"verify": lambda *_: "off by two"})())
    assert fault(other) == ("wrong", "off by two")
    assert fault(trial({"a": "add"})) == ("wrong", "off by two")
    assert len(jobs) == 1


def test_numbers_that_are_wrong_on_a_callers_data_condemn_no_code(trial, jobs):
    # A damaged model file would: its weights are none of the code's.
    for _ in range(2):
        one = trial({"a": "wrong", "b": "signal SIGSEGV"})
        one._subject = attrs.evolve(one._subject, has_given_data=True)
        assert fault(one)[0] == "wrong"
    assert fault(one, "b")[0] == "crashed"
    assert len(jobs) == 3
    assert one.proof("wrong") is None
    assert one.proof("signal SIGSEGV").status == "crashed"


def test_the_reference_sees_inputs_that_the_code_has_not_touched(trial):
    design = PlusOne()
    one = trial({"a": "scribble"}, design)
    before = one._subject.inputs["x"].copy()
    # It overwrites its input, then adds one to that: seen against what it was given.
    assert fault(one)[0] == "wrong"
    np.testing.assert_array_equal(design.seen[0]["x"], before)
    np.testing.assert_array_equal(one._subject.inputs["x"], before)


def test_inputs_are_brought_to_the_device_once_for_all_members_and_the_timing(trial):
    scripts = {"a": "add", "b": "add 0"}
    for name in scripts:
        check(trial(scripts), name)  # from now on they run here
    one = trial(scripts, n=1 << 16)
    for name in scripts:
        assert check(one, name)
        one.time_ns(ShapeCandidate(name))
    # x once, a poisoned y for each check and one for the timing.
    assert one.device.allocated == 4 * 4 << 16


def test_no_inputs_are_held_here_while_a_worker_has_its_own(trial, monkeypatch):
    check(trial({"a": "add"}))
    one = trial({"a": "add", "b": "add 0"})
    assert check(one)
    held = weakref.ref(one._held["x"].owner)
    real, seen = one._worker.run, []

    def run(job, **how):
        seen.append(held())
        return real(job, **how)

    monkeypatch.setattr(one._worker, "run", run)
    assert check(one, "b")
    assert seen == [None]


def test_what_a_member_writes_into_its_input_is_held_against_no_other(trial):
    design = type("Blind", (PlusOne,), {"verify": lambda *_: ""})()
    one = trial({"a": "add", "b": "scribble"})
    check(one)
    check(trial({"b": "scribble"}, design), "b")  # proven well by a judge that sees nothing
    assert fault(one, "b")[0] == "wrong"
    assert check(one, "a")
    assert np.isfinite(one._subject.inputs["x"]).all()


def test_what_a_wrong_member_writes_into_its_input_is_timed_with_no_other(trial):
    design = type("Blind", (PlusOne,), {"verify": lambda *_: ""})()
    one = trial({"a": "add", "b": "scribble"})
    check(one)
    check(trial({"b": "scribble"}, design), "b")  # proven well by a judge that sees nothing
    assert check(one)
    assert fault(one, "b")[0] == "wrong"
    one.time_ns(ShapeCandidate("a"))
    x = one._sets[0][0]
    np.testing.assert_array_equal(x.owner, one._subject.inputs["x"])


def test_in_place_code_is_checked_on_a_copy(trial):
    one = trial({"a": "add"}, InPlace())
    before = one._subject.inputs["y"].copy()
    for _ in range(2):  # in the worker, then here
        assert check(one)
        np.testing.assert_array_equal(one._subject.inputs["y"], before)


def test_of_whole_numbers_poison_cannot_be_told_from_an_answer(trial):
    # -1 is an answer too: the reference decides.
    assert fault(trial({"a": "sleep 0"}, Whole())) == ("wrong", "all ones")


def test_an_empty_result_has_no_poison(trial):
    assert check(trial({"a": "add"}, n=0))


def test_weights_are_prepared_for_the_member(trial, jobs):
    assert check(trial({"a": "add"}, Prepared(), preparation="copy"))
    assert jobs == [["copy"], ["copy", "add"]]
    assert check(trial({"b": "add 0"}, Prepared(), preparation="copy"), "b")
    assert jobs[2:] == [["copy", "add 0"]]


@pytest.mark.parametrize("script", ["signal SIGSEGV", "exit 3", "sleep 60"])
def test_a_preparation_that_is_bad_is_nobody_elses_fault(trial, jobs, script):
    one = trial({"a": "add", "b": "add 0"}, Prepared(), preparation=script)
    for name in "ab":
        status, note = fault(one, name)
        assert status == "failed"
        assert "the weight preparation" in note
    assert jobs == [[script]]
    assert one.proof("add") is None
    assert one.proof(script).status in ("crashed", "hung")


def test_a_worker_that_does_not_start_condemns_no_preparation(trial, worker, monkeypatch):
    def run(job, **how):
        raise MemberFault("failed", "the worker process did not start")

    monkeypatch.setattr(worker, "run", run)
    one = trial({"a": "add"}, Prepared(), preparation="copy")
    assert fault(one) == ("failed", "the worker process did not start")
    assert (one.proof("copy"), one.proof("add")) == (None, None)


@pytest.mark.parametrize("is_owned", [True, False])
def unbound(*_):
    raise AttributeError("no such thing")


@pytest.mark.parametrize("is_owned", [True, False])
@pytest.mark.parametrize("where", ["launcher", "launcher's launch", "load", "to_host"])
def test_a_fault_of_the_device_half_is_no_wrong_number(trial, monkeypatch, where, is_owned):
    check(trial({"a": "add"}))  # from now on it runs here
    method, _, is_inside = where.partition("'")
    monkeypatch.setattr(ScriptedDevice, method, (lambda *_: unbound) if is_inside else unbound)
    one = trial({"a": "add"})
    if is_owned:
        one._device = guarded(one._device, Owner("acme", "acme-xpu", "backend 'acme'"))
    status, note = fault(one)
    assert status == "failed"
    assert "AttributeError: no such thing" in note
    said = f"plugin 'acme' of acme-xpu: backend 'acme': ScriptedDevice.{method}()"
    assert note.startswith(said if is_owned else "AttributeError")
    assert trial({}).proof("add").status == "well"


def test_a_launch_that_fails_while_it_is_timed_names_the_backend(trial):
    one = trial({"a": "nonsense"})
    one._device = guarded(one._device, Owner("acme", "acme-xpu", "backend 'acme'"))
    with pytest.raises(
        MemberFault, match=r"'acme' of acme-xpu: .*AssertionError: nonsense"
    ) as error:
        one.time_ns(ShapeCandidate("a"))
    assert error.value.status == "failed"


@pytest.mark.parametrize("gives", [None, True, ValueError("no reference for NaN")])
def test_a_check_that_fails_judges_nobody(trial, gives):
    def verify(*_):
        if isinstance(gives, Exception):
            raise gives
        return gives

    design = type("Torn", (PlusOne,), {"verify": verify})()
    owned = guarded(design, Owner("acme", "acme-xpu", "design 'plus_one'"))
    status, note = fault(trial({"a": "add"}, owned))
    assert status == "failed"
    assert note.startswith("plugin 'acme' of acme-xpu: design 'plus_one': Torn.verify() ")
    assert trial({}).proof("add") is None


def test_a_mended_judge_tries_again_once(trial, jobs, tmp_path):
    def judged_by(judge, design=None):
        one = trial({"a": "wrong"}, design)
        one._proofs = Proofs(tmp_path / "proofs", "here", lambda: judge)
        return one

    for _ in range(2):
        assert fault(judged_by("verify 1"))[0] == "wrong"
    assert len(jobs) == 1
    mended = type("Mended", (PlusOne,), {"verify": lambda *_: ""})
    for _ in range(2):
        assert check(judged_by("verify 2", mended()))
    assert len(jobs) == 2
    assert trial({}).proof("wrong").status == "well"


def test_what_fails_when_it_is_tried_again_is_not_due_for_ever(trial, tmp_path):
    script = "raise no scratch memory"
    one = trial({"a": script})
    code = one._arms["a"].code_hash
    Proofs(tmp_path / "proofs", "here", lambda: "verify 1").record(code, "wrong", "why")
    one._proofs = Proofs(tmp_path / "proofs", "here", lambda: "verify 2")
    assert one._proofs.is_lapsed(code)
    assert fault(one)[0] == "failed"
    assert not one._proofs.is_lapsed(code)


def test_a_problem_with_more_operations_has_more_time(trial, worker, monkeypatch):
    asked = []
    monkeypatch.setattr(worker, "run", lambda _job, *, work_s: asked.append(work_s) or [])
    design = type("Large", (PlusOne,), {"operations": lambda *_: 3 * 10**12})()
    with pytest.raises(ValueError, match="zip"):
        check(trial({"a": "add"}, design))
    assert asked[0] > 100


def runs(one):
    found = [address for _, address in one.device.ran]
    one.device.ran.clear()
    return found


def time_all(one, names, rounds):
    for _ in range(rounds):
        for name in names:
            assert one.time_ns(ShapeCandidate(name)) > 0


def test_warm_every_launch_reads_the_same_memory(trial):
    one = trial({"a": "add", "b": "add 0"})
    time_all(one, "ab", 3)
    assert len(set(runs(one))) == 1
    assert one.copies == 1


def test_cold_a_copy_comes_back_after_many_others_whoever_reads(trial):
    scripts = {name: f"add {index}" for index, name in enumerate("abc")}
    one = trial(scripts, memory="cold", n=512)
    # Each launch touches 4 KiB; the cache has 64 KiB and is gone round four times.
    assert one.copies == 64
    time_all(one, "abc", 4)
    order = runs(one)
    assert all(len(set(order[place : place + 32])) == 32 for place in range(len(order) - 31))
    assert len(set(order)) == 64


def test_cold_copies_are_few_enough_for_the_memory(trial, monkeypatch):
    one = trial({"a": "add"}, memory="cold", n=1)
    assert one.copies == 8192  # the cache would take 32,768
    facts = ScriptedDevice.facts
    monkeypatch.setattr(
        ScriptedDevice, "facts", attrs.evolve(facts, last_level_cache_bytes=1 << 29)
    )
    large = trial({"a": "add"}, memory="cold", n=1 << 18)
    touched = 2 * 4 << 18
    assert large.copies * touched <= facts.memory_bytes / 4
    before = large.device.allocated
    large.time_ns(ShapeCandidate("a"))
    assert large.device.allocated - before <= facts.memory_bytes / 4
