"""The runner: what one probe, problem or plugin does wrong costs no other its answer."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from xpu import XpuBuildError, XpuConfigError, XpuLaunchException
from xpu.choice.foreign_load import load_note
from xpu.model import ChoiceResult, Family, ProbePlan
from xpu.probes import run_probes
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Probe

FAMILY = Family("one", "any", ("n",), ())


class Each(Probe):
    """A trial for each problem of each family, as the shipped ones make."""

    summary = "all of it"

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, context):
        for family in context.plan.families:
            for problem in context.problems(family):
                yield context.trial(family, problem)


class Host:
    """Answers every problem; fails where told to."""

    def __init__(self, faults=(), contended=(), notes=()) -> None:
        self.faults = dict(faults)
        self.contended = list(contended)
        self.notes = list(notes)
        self.asked = []

    def choose(self, family, problem, *, memory, data):
        self.asked.append((family, problem.key, memory, data))
        if problem.key in self.faults:
            raise self.faults[problem.key]
        load = 0.9 if problem.key in self.contended else 0.0
        if load:
            self.contended.remove(problem.key)
        return ChoiceResult(
            family,
            problem.key,
            "member",
            "timed",
            memory=memory,
            foreign_load=load,
            note=self.notes.pop(0) if self.notes else "",
        )

    def hold(self):
        return nullcontext()


def settings(*names: str, problems=("1", "2", "3")) -> Settings:
    plans = {name: ProbePlan(name, ("one",), problems, "warm") for name in names}
    return Settings(families={"one": FAMILY}, probes=plans)


def outcomes(host, probes, planned, problems=("1", "2", "3"), **more):
    registry = Registry(probes={probe.name: probe for probe in probes})
    return list(run_probes(host, settings(*planned, problems=problems), registry, **more))


def keys(found) -> list[str]:
    return [one.result.problem if one.result else one.error for one in found]


def test_probes_run_in_the_order_of_the_plans_and_only_where_planned_and_installed() -> None:
    host = Host()
    found = outcomes(host, [Each("b"), Each("a"), Each("unplanned")], ["a", "absent", "b"])
    assert [(one.probe, one.result.problem) for one in found] == [
        (name, key) for name in ("a", "b") for key in ("1", "2", "3")
    ]
    assert {asked[2:] for asked in host.asked} == {("warm", None)}


def test_names_are_run_in_the_order_given_each_once_and_memory_is_the_callers() -> None:
    host = Host()
    found = outcomes(host, [Each("a"), Each("b")], ["a", "b"], names=["b", "a", "b"], memory="cold")
    assert [one.probe for one in found] == ["b"] * 3 + ["a"] * 3
    assert {asked[2] for asked in host.asked} == {"cold"}


@pytest.mark.parametrize("name", ["c", "absent", "unplanned", ""])
def test_a_wrong_name_ends_the_run_before_anything_is_timed(name) -> None:
    host = Host()
    with pytest.raises(XpuConfigError):
        outcomes(host, [Each("a"), Each("unplanned")], ["a", "absent"], names=["a", name])
    assert host.asked == []


@pytest.mark.parametrize(
    ("fault", "note"),
    [
        (XpuLaunchException("nothing survives"), "nothing survives"),
        (XpuBuildError("no compiler"), "no compiler"),
        (XpuConfigError("no such size"), "no such size"),
        (ZeroDivisionError("in a family's own code"), "ZeroDivisionError: in a family's own code"),
    ],
)
def test_a_problem_that_cannot_be_served_is_a_refused_result(fault, note) -> None:
    found = outcomes(Host({"2": fault}), [Each("a")], ["a"])
    assert keys(found) == ["1", "2", "3"]
    refused = found[1].result
    assert (refused.member, refused.source, refused.note) == ("", "refused", note)


class Odd(Probe):
    """Gives one result and then what it was told to."""

    name, summary = "odd", "odd"

    def __init__(self, then) -> None:
        self.then = then

    def run(self, context):
        yield ChoiceResult("one", "1", "member", "timed")
        if isinstance(self.then, BaseException):
            raise self.then
        yield self.then


@pytest.mark.parametrize(
    ("then", "error"),
    [
        (XpuLaunchException("went wrong"), "went wrong"),
        (ValueError("went wrong"), "ValueError: went wrong"),
        (SystemExit(3), "SystemExit: 3"),
        ("no result", "TypeError: it gave 'no result'; allowed: a ChoiceResult"),
    ],
)
def test_a_probe_that_fails_keeps_its_results_and_stops_no_other(then, error) -> None:
    found = outcomes(Host(), [Odd(then), Each("a")], ["odd", "a"])
    assert keys(found) == ["1", error, "1", "2", "3"]


def test_an_interrupt_is_not_an_error_of_the_probe() -> None:
    registry = Registry(probes={"odd": Odd(KeyboardInterrupt())})
    run = run_probes(Host(), settings("odd"), registry)
    assert next(run).result.problem == "1"
    with pytest.raises(KeyboardInterrupt):
        next(run)


def test_a_probe_that_gives_nothing_at_all_is_an_error() -> None:
    class Nothing(Probe):
        name, summary = "nothing", "nothing"

        def run(self, context):
            return None

    [found] = outcomes(Host(), [Nothing()], ["nothing"])
    assert found.result is None
    assert found.error


def test_results_come_one_at_a_time() -> None:
    host = Host()
    registry = Registry(probes={"a": Each("a")})
    run = run_probes(host, settings("a"), registry)
    assert next(run).result.problem == "1"
    assert len(host.asked) == 1


def test_a_contended_answer_is_asked_for_once_more() -> None:
    host = Host(contended=["2", "3", "3"])
    found = outcomes(host, [Each("a")], ["a"])
    assert [asked[1] for asked in host.asked] == ["1", "2", "2", "3", "3"]
    assert [one.result.is_contended for one in found] == [False, False, True]


DROPPED = "the stored answer 'a' was dropped"


@pytest.mark.parametrize(
    ("first", "second", "note"),
    [
        (f"{DROPPED}; {load_note(0.9)}", "", DROPPED),
        (f"{DROPPED}; {load_note(0.9)}", "cut", f"{DROPPED}; cut"),
        (f"cut; {load_note(0.9)}", "cut", "cut"),
        (load_note(0.9), "", ""),
    ],
)
def test_what_the_contended_try_dropped_is_still_told(first, second, note) -> None:
    [found] = outcomes(
        Host(contended=["2"], notes=[first, second]),
        [Each("a")],
        ["a"],
        problems=("2",),
    )
    assert found.result.note == note
