"""What a probe asks of a real orchestrator."""

from __future__ import annotations

import time

import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem
from xpu.spec import Probe, hookimpl

PLAN = '[probes.asks]\nfamilies = ["toy"]\nproblems = ["4000"]\nmemory = "cold"\n'


class Asks(Probe):
    name = "asks"
    summary = "does what a test says"

    def __init__(self):
        self.steps = None

    def run(self, context):
        return self.steps(context)


class AsksPlugin:
    def __init__(self):
        self.probe = Asks()

    @hookimpl
    def xpu_probes(self):
        return [self.probe]


@pytest.fixture
def run(tmp_path, quiet_machine):
    """Run steps as a probe and return what it gave, on one store."""
    toy.write_family(tmp_path, {"slow": {"mode": toy.SLOW}, "fast": {"mode": 0, "grain": 512}})
    (tmp_path / "probes.toml").write_text(PLAN)

    def made(steps, store="store", **more):
        plugin = AsksPlugin()
        plugin.probe.steps = steps
        with Orchestrator(
            store and tmp_path / store,
            backend="cpu",
            config=tmp_path,
            registry=toy.toy_registry(("asks", plugin, "asks")),
            **more,
        ) as one:
            return one, list(one.run_probes(["asks"]))

    return made


def test_a_trial_is_of_the_plan_and_is_remembered(run):
    def steps(context):
        assert context.plan.memory == "cold"
        for problem in context.problems("toy"):
            assert context.data("toy", problem) is None
            yield context.trial("toy", problem)

    _, [first] = run(steps)
    assert (first.result.member, first.result.source, first.result.memory) == (
        "fast",
        "timed",
        "cold",
    )
    _, [again] = run(steps)
    assert (again.result.source, again.result.stored) == ("stored", True)


def test_a_bound_kernel_computes_and_a_hold_times_nothing(run):
    def steps(context):
        with context.hold():
            kernel = context.bind("toy", Problem(n=99))
        x, y = np.ones(99, np.float32), np.full(99, np.nan, np.float32)
        kernel(x, out=y)
        assert (y == 4).all()
        yield kernel.result

    _, [outcome] = run(steps, tuning="first-use")
    assert (outcome.error, outcome.result.source) == ("", "default")


def test_callables_are_compared_where_they_stand_and_remembered(run):
    calls = []

    def arm(seconds):
        def call():
            calls.append(seconds)
            time.sleep(seconds)

        return call

    def steps(context):
        arms = {"slow": arm(0.0012), "quick": arm(0.0004)}
        yield context.compare_in_place("route", arms, "build 1")

    _, [first] = run(steps)
    assert (first.result.member, first.result.source) == ("quick", "timed")
    assert first.result.margin_permille > 300
    calls.clear()
    _, [again] = run(steps)
    assert (again.result.member, again.result.source, calls) == ("quick", "stored", [])


def test_an_answer_of_a_probe_rests_on_the_device_and_its_driver_too(run, monkeypatch):
    seen = []

    def keep(context):
        context.remember("row window", "7", "build 1", margin=3)
        seen.append(context.recall("row window", "build 1"))
        yield from ()

    def look(context):
        seen.append(context.recall("row window", "build 1"))
        yield from ()

    run(keep)
    run(look)
    assert seen == ["7", "7"]
    real = "xpu_backend_cpu.device.CpuDevice.identity"
    monkeypatch.setattr(real, lambda _: {"device": "same", "driver": "another"})
    run(look)
    assert seen[2] is None


def test_without_a_store_nothing_is_remembered_and_nothing_fails(run):
    seen = []

    def steps(context):
        context.remember("window", "7", "build 1")
        seen.append(context.recall("window", "build 1"))
        yield context.trial("toy", Problem(n=500))

    _, [outcome] = run(steps, store=None)
    assert seen == [None]
    assert (outcome.result.source, outcome.result.stored) == ("timed", False)


def test_loading_runs_the_probes_and_what_they_found_serves(run):
    found = []

    def steps(context):
        for problem in context.problems("toy"):
            found.append(context.trial("toy", problem).member)
            yield context.trial("toy", problem)
        raise ValueError("a broken end")

    one, _ = run(steps, tuning="load", memory="cold")
    assert found == ["fast", "fast"]  # once when it was made, once as asked
    assert one.settled


def test_a_problem_that_cannot_be_served_is_a_result_and_the_next_is_tried(run):
    def steps(context):
        yield context.trial("toy", Problem(n=100, m=3))
        yield context.trial("toy", Problem(n=100))

    _, [refused, served] = run(steps)
    assert refused.result.source == "refused"
    assert "the problem's sizes are n" in refused.result.note
    assert served.result.source == "timed"


def test_members_are_measured_whatever_is_stored_and_nothing_is_kept(run, tmp_path):
    def steps(context):
        problem = Problem(n=4000)
        assert context.members("toy") == {"slow": None, "fast": None}
        first = context.code("toy", problem)
        assert first == context.code("toy", Problem(n=4001))  # the same code serves it
        context.trial("toy", problem)
        results = {each.name: each for each in context.measured("toy", problem)}
        assert results["fast"].median_ns < results["slow"].median_ns
        assert all(each.status in ("survivor", "left") for each in results.values())
        yield context.trial("toy", problem)

    _, [outcome] = run(steps)
    assert outcome.error == ""
    assert (outcome.result.timed, outcome.result.stored) == (False, True)
    assert len(list((tmp_path / "store").rglob("shape.*"))) == 1


def test_what_is_kept_in_memory_lasts_as_long_as_the_device(run):
    said = []

    def steps(context):
        said.append(context.kept("pays"))
        context.keep("pays", "yes")
        said.append(context.kept("pays"))
        yield context.trial("toy", Problem(n=4000))

    one, _ = run(steps)
    run(steps)
    assert said == [None, "yes", None, "yes"]
    del one


def test_what_was_measured_beside_others_work_is_not_kept(run, monkeypatch):
    load, said = [0.5], []
    monkeypatch.setattr("xpu_backend_cpu.device.CpuDevice.foreign_load", lambda _: load[0])

    def steps(context):
        for _ in range(2):
            said.append(len(context.measured("toy", Problem(n=4000))))
            context.remember("own", "a", "build")
            context.keep("own", "a")
            said.append((context.recall("own", "build"), context.kept("own")))
            load[0] = 0.0
        yield context.trial("toy", Problem(n=4000))

    run(steps)
    assert said == [2, (None, None), 2, ("a", "a")]
