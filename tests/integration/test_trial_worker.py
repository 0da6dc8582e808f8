"""Members that misbehave: named, the others work on, and the next start runs none of them."""

from __future__ import annotations

import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem, XpuLaunchException

MEMBERS = {
    "plain": {"mode": toy.RIGHT},
    "wrong": {"mode": toy.WRONG},
    "endless": {"mode": toy.ENDLESS},
    "null": {"mode": toy.NULL_WRITE},
    "unwritten": {"mode": toy.UNWRITTEN},
    "nocompile": {"mode": toy.NO_COMPILE},
    "aborts": {"mode": toy.ABORTS},
    "wide": {"mode": toy.RIGHT, "grain": 256},
}


@pytest.fixture
def orchestrator(tmp_path, monkeypatch):
    monkeypatch.setattr("xpu.choice.worker.JOB_DEADLINE_S", 2.0)
    made = []

    def make(members=MEMBERS, **more):
        config = toy.write_family(tmp_path, members, cap=16)
        one = Orchestrator(
            more.pop("store", None),
            backend="cpu",
            config=config,
            registry=toy.toy_registry(),
            build_cache=tmp_path / "build",
            **more,
        )
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


def statuses(result):
    return {member.name: member.status for member in result.members}


def test_each_fault_is_named_and_the_others_work_on(orchestrator):
    result = orchestrator().choose("toy", Problem(n=5000))
    found = statuses(result)
    assert found.pop("plain") in ("survivor", "left")
    assert found.pop("wide") in ("survivor", "left")
    assert found == {
        "wrong": "wrong",
        "endless": "hung",
        "null": "crashed",
        "unwritten": "wrong",
        "nocompile": "failed",
        "aborts": "crashed",
    }
    assert result.member in ("plain", "wide")
    notes = {member.name: member.note for member in result.members}
    assert "largest error 1" in notes["wrong"]
    assert "did not end within 2 s" in notes["endless"]
    assert "SIGSEGV" in notes["null"]
    assert "1 elements of 'y' were not written" in notes["unwritten"]
    assert "does not compile" in notes["nocompile"]
    assert "SIGABRT" in notes["aborts"]


def test_the_next_start_does_not_run_them_again(orchestrator, monkeypatch):
    orchestrator().choose("toy", Problem(n=5000))
    ran = []
    monkeypatch.setattr("xpu.choice.worker.Worker.run", lambda self, job: ran.append(job))
    result = orchestrator().choose("toy", Problem(n=5001))
    assert ran == []
    found = statuses(result)
    assert (found["endless"], found["null"], found["wrong"]) == ("hung", "crashed", "wrong")
    note = next(member.note for member in result.members if member.name == "null")
    assert "delete" in note


def test_a_condemned_default_is_not_served(orchestrator):
    members = {"null": {"mode": toy.NULL_WRITE}, "plain": {"mode": toy.RIGHT, "grain": 32}}
    assert orchestrator(members).choose("toy", Problem(n=300)).member == "plain"
    kernel = orchestrator(members, tuning="off").bind("toy", n=300)
    x = np.ones(300, np.float32)
    y = np.zeros_like(x)
    kernel(x, out=y)
    assert kernel.member == "plain"
    assert (y == 4).all()


def test_no_member_left_names_every_one(orchestrator):
    members = {"null": {"mode": toy.NULL_WRITE}, "wrong": {"mode": toy.WRONG}}
    with pytest.raises(XpuLaunchException) as error:
        orchestrator(members).choose("toy", Problem(n=100))
    assert all(word in str(error.value) for word in ("null", "SIGSEGV", "wrong", "largest error"))


def test_a_worker_answers_many_jobs_with_one_process(orchestrator):
    one = orchestrator({f"g{grain}": {"mode": 0, "grain": grain} for grain in (8, 16, 32, 64)})
    one.choose("toy", Problem(n=2000))
    worker = one._trials._worker
    first = worker._process.pid
    one.choose("toy", Problem(n=2001))
    assert worker._process.pid == first
