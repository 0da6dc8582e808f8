"""Questions of a tuning: what was named, what probes would try, each once, nothing measured."""

from __future__ import annotations

import pytest

from xpu import XpuConfigError
from xpu.model import BucketPolicy, Family, Member, ProbePlan, Route
from xpu.probes import Planner, Question
from xpu.registry import Registry
from xpu.settings import Settings
from xpu.spec import Design, KernelSource, Probe


class Rows(Design):
    """Serves at most 8 rows, and widths that are a multiple of 4."""

    name, parameters, problem, arguments = "rows", (), ("m", "n"), ()

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "")

    def shapes(self, problem, constants):
        return {}

    def check_problem(self, problem, constants):
        if problem.m > 8:
            return f"m = {problem.m} is above 8"
        return "" if problem.n % 4 == 0 else f"n = {problem.n} is no multiple of 4"

    def data(self, problem, constants, rng):
        raise AssertionError("planning makes no data")

    def verify(self, problem, constants, inputs, outputs, rng):
        raise AssertionError("planning checks nothing")


class Each(Probe):
    summary = "all of it"

    def __init__(self, name, and_then=None):
        self.name = name
        self._and_then = and_then

    def run(self, context):
        for family in context.plan.families:
            for problem in context.problems(family):
                assert context.data(family, problem) is None
                yield context.trial(family, problem)
        if self._and_then is not None:
            yield self._and_then(context)


def fails(context):
    raise ZeroDivisionError("in a probe")


EVEN = BucketPolicy("even", "linear", step=2, most=12)
FEW = BucketPolicy("few", "linear", step=2, most=4)
COARSE = BucketPolicy("coarse", "linear", step=6)
MEMBERS = (Member("only"),)
FAMILIES = {
    "rows": Family("rows", "rows", ("m", "n"), MEMBERS),
    "even": Family("even", "rows", ("m", "n"), MEMBERS, buckets={"m": "even"}),
    "narrow": Family("narrow", "rows", ("m", "n"), MEMBERS, buckets={"m": "few"}),
    "odd": Family("odd", "rows", ("m", "n"), MEMBERS, buckets={"n": "coarse"}),
    "silent": Family("silent", "rows", ("m", "n"), (Member("only", dialects=("simt",)),)),
}
ROUTED = Family.of_routes(
    "routed",
    ("m", "n"),
    [
        Route(FAMILIES["rows"], "problem.m <= 2"),
        Route(FAMILIES["even"]),
        Route(FAMILIES["silent"]),
    ],
)
FAMILIES["routed"] = ROUTED


def planner(plans=(), probes=(), dialect="c", **more) -> Planner:
    settings = Settings(
        families=FAMILIES,
        buckets={"even": EVEN, "few": FEW, "coarse": COARSE},
        probes={plan.name: plan for plan in plans},
    )
    registry = Registry(designs={"rows": Rows()}, probes={probe.name: probe for probe in probes})
    return Planner(settings, registry, dialect, **more)


def shown(questions) -> list[tuple[str, str, str]]:
    return [(one.family, one.problem.key, one.memory) for one in questions]


def test_what_is_named_is_asked_in_order_and_once() -> None:
    found = planner().named(["rows:1x8", "even:1x8", "rows:1x8", "rows:2x8"])
    assert shown(found.asked) == [
        ("rows", "1x8", "warm"),
        ("even", "2x8", "warm"),
        ("rows", "2x8", "warm"),
    ]
    assert shown(planner(memory="cold").named(["rows:1x8"]).asked) == [("rows", "1x8", "cold")]


def test_batches_take_the_place_of_m_where_the_family_can_serve_them() -> None:
    found = planner(batches=(1, 3, 9)).named(["rows:77x8"])
    assert shown(found.asked) == [("rows", "1x8", "warm"), ("rows", "3x8", "warm")]
    assert found.unasked == {"rows:9x8": "m = 9 is above 8"}
    with pytest.raises(XpuConfigError, match="m = 9 is above 8"):
        planner(batches=(9, 10)).named(["rows:1x8"])


def test_a_problem_outside_the_buckets_is_named_with_the_reason() -> None:
    # Of those up to 8 that the design serves, the policy leaves out all above 4.
    found = planner(batches=(1, 5, 7)).named(["narrow:1x8"])
    assert shown(found.asked) == [("narrow", "2x8", "warm")]
    assert list(found.unasked) == ["narrow:5x8", "narrow:7x8"]
    assert all("outside the family's buckets (m by 'few'" in why for why in found.unasked.values())
    alone = planner().named(["narrow:5x8"])
    assert (alone.asked, list(alone.unasked)) == ((), ["narrow:5x8"])


def test_what_a_family_of_routes_rests_on_is_asked_before_it_and_once() -> None:
    found = planner().named(["routed:1x8", "even:2x8", "routed:3x8"])
    assert [(one.family, one.problem.key) for one in found.asked] == [
        ("rows", "1x8"),
        ("even", "2x8"),
        ("routed", "1x8"),
        ("even", "4x8"),
        ("routed", "3x8"),
    ]
    with pytest.raises(XpuConfigError, match=r"no route takes it: rows: problem.m <= 2 does not"):
        planner().named(["routed:9x8"])
    probed = planner([ProbePlan("a", ("routed",), ("1x8",))], [Each("a")]).probed(None)
    assert [one.family for one in probed.asked] == ["rows", "even", "routed"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows", "FAMILY:SIZES"),
        ("", "FAMILY:SIZES"),
        ("row:1x8", "did you mean 'rows'"),
        ("rows:1", "a problem is MxN"),
        ("rows:1x8x3", "a problem is MxN"),
        ("rows:1x7", "n = 7 is no multiple"),
        ("rows:1x0", "size of 0"),
    ],
)
def test_a_text_that_names_no_problem_is_refused(text, said) -> None:
    with pytest.raises(XpuConfigError, match=said):
        planner().named(["rows:1x8", text])


def test_probes_are_asked_what_they_would_try() -> None:
    plans = [
        ProbePlan("a", ("rows", "even"), ("1x8", "2x8"), "warm"),
        ProbePlan("absent", ("rows",), ("4x8",)),
        ProbePlan("b", ("rows",), ("1x8", "5x12"), "cold"),
    ]
    probes = [Each("a"), Each("b"), Each("unplanned")]
    assert shown(planner(plans, probes).probed(None).asked) == [
        ("rows", "1x8", "warm"),
        ("rows", "2x8", "warm"),
        ("even", "2x8", "warm"),
        ("rows", "1x8", "cold"),
        ("rows", "5x12", "cold"),
    ]
    found = planner(plans, probes, memory="warm", batches=(3,)).probed(None)
    assert shown(found.asked) == [
        ("rows", "3x8", "warm"),
        ("even", "4x8", "warm"),
        ("rows", "3x12", "warm"),
    ]


def test_what_cannot_be_served_is_no_question_of_a_probe() -> None:
    plan = ProbePlan("a", ("rows", "silent", "even"), ("1x8", "9x8", "1x7"))
    assert shown(planner([plan], [Each("a")]).probed(None).asked) == [
        ("rows", "1x8", "warm"),
        ("even", "2x8", "warm"),
    ]
    assert shown(planner([plan], [Each("a")], "simt").probed(None).asked) == []


def test_a_bucket_is_asked_for_and_one_that_cannot_be_served_is_none() -> None:
    found = planner().named(["odd:1x4", "odd:1x8", "odd:1x12"])
    # 6 is no multiple of 4, so 4 is its own bucket; 8 goes up to 12.
    assert shown(found.asked) == [("odd", "1x4", "warm"), ("odd", "1x12", "warm")]


def test_a_size_out_of_bucket_is_no_question(monkeypatch) -> None:
    monkeypatch.setattr(Rows, "check_problem", lambda *_: "")
    assert shown(planner().named(["even:12x8", "even:13x8"]).asked) == [("even", "12x8", "warm")]


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (fails, "ZeroDivisionError: in a probe"),
        (lambda context: context.bind("rows", None), "binds a kernel"),
        (lambda context: context.compare_in_place("x", {}, "1"), "compares in place"),
    ],
)
def test_a_probe_that_cannot_be_foretold_is_named_and_costs_the_others_nothing(then, said) -> None:
    plans = [ProbePlan(name, ("rows",), (key,)) for name, key in (("a", "1x8"), ("b", "2x8"))]
    found = planner(plans, [Each("a", then), Each("b")]).probed(None)
    assert shown(found.asked) == [("rows", "1x8", "warm"), ("rows", "2x8", "warm")]
    assert list(found.unplanned) == ["a"]
    assert said in found.unplanned["a"]


def test_what_a_probe_remembers_is_not_kept_and_a_hold_opens(monkeypatch) -> None:
    def remembers(context):
        context.remember("mine", "1", "build")
        assert context.recall("mine", "build") is None
        with context.hold():
            return context.trial("rows", context.problems("rows")[0])

    plan = ProbePlan("a", ("rows",), ("1x8",))
    found = planner([plan], [Each("a", remembers)]).probed(None)
    assert found.unplanned == {}
    assert found.asked == (Question("rows", found.asked[0].problem),)
