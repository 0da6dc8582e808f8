"""Families of routes: which route serves, what that rests on, and what a caller notices of it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem, XpuLaunchException
from xpu.orchestrator import routes

N = 20_000
FAST, SLOW = {"mode": toy.RIGHT, "grain": 512}, {"mode": toy.SLOW}
FAMILIES = {
    "little": {"one": SLOW, "two": {**SLOW, "grain": 128}},
    "large": {"fast": FAST, "slow": SLOW},
}
ROUTES = {"little": f"problem.n <= {2 * N}", "large": "problem.n >= 64"}


@pytest.fixture(autouse=True)
def _surroundings(quiet_machine):
    pass


def written(directory: Path, families=FAMILIES, routes=ROUTES, keys="") -> Path:
    lines = []
    for family, members in families.items():
        lines += [f"[families.{family}]", 'design = "toy"', 'problem = ["n"]']
        for name, parameters in members.items():
            lines += [f"[[families.{family}.members]]", f'name = "{name}"']
            lines += [f"{key} = {value}" for key, value in {"grain": 64, **parameters}.items()]
    lines += ["[families.any]", 'problem = ["n"]', keys]
    for family, when in routes.items():
        lines += ["[[families.any.routes]]", f'family = "{family}"', f'when = "{when}"']
    path = directory / "families.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def make(tmp_path):
    made = []

    def orchestrator(families=FAMILIES, routes=ROUTES, *, keys="", store=None, **more):
        one = Orchestrator(
            store,
            backend="cpu",
            config=written(tmp_path, families, routes, keys),
            registry=toy.toy_registry(),
            build_cache=tmp_path / "build",
            **more,
        )
        made.append(one)
        return one

    yield orchestrator
    for one in made:
        one.close()


def built(tmp_path):
    return len(list((tmp_path / "build").glob("*/*/code")))


def stored(tmp_path):
    return {path.name: path for path in (tmp_path / "store").rglob("shape.*")}


def call(kernel, n=N):
    x = np.random.default_rng().standard_normal(n).astype(np.float32)
    y = np.full_like(x, np.nan)
    kernel(x, out=y)
    assert np.abs(y - (3.0 * x.astype(np.float64) + 1.0)).max() < 1e-4


def test_before_anything_is_measured_the_first_that_takes_part_serves(make, tmp_path):
    one = make()
    first = one.bind("any", n=N)
    assert (first.member, first.result.serving, first.result.source) == ("little", "one", "default")
    assert first.explain().splitlines()[:2] == [
        f"any {N}: little (default)",
        "  its member one serves",
    ]
    second = one.bind("any", n=2 * N + 1)
    assert (second.member, second.result.serving) == ("large", "fast")
    assert one.bind("any", n=32).member == "little"
    assert built(tmp_path) == 2  # the default of each, and no more
    for kernel, n in ((first, N), (second, 2 * N + 1)):
        call(kernel, n)


def test_each_route_chooses_for_itself_and_then_they_are_compared(make, tmp_path):
    result = make(store=tmp_path / "store").choose("any", Problem(n=N))
    assert (result.member, result.serving, result.source) == ("large", "fast", "timed")
    assert result.stored
    members = {member.name: member for member in result.members}
    assert list(members) == ["little", "large"]
    assert members["little"].serving in ("one", "two")
    assert members["large"].median_ns < members["little"].median_ns
    names = stored(tmp_path)
    assert set(names) == {f"shape.any.{N}", f"shape.little.{N}", f"shape.large.{N}"}
    assert names[f"shape.any.{N}"].read_text().startswith("large\n")


def test_a_stored_answer_serves_a_new_process_which_compiles_nothing(make, tmp_path, monkeypatch):
    make(store=tmp_path / "store").choose("any", Problem(n=N))
    again = make(store=tmp_path / "store")
    compiles = []
    monkeypatch.setattr(again._assembly.adaptor.compiler, "compile", compiles.append)
    kernel = again.bind("any", n=N)
    assert (kernel.member, kernel.result.serving) == ("large", "fast")
    assert kernel.result.source == "stored"
    assert not compiles
    call(kernel)
    foreseen = again.foresee("any", Problem(n=N), "warm")
    assert (foreseen.member, foreseen.serving, foreseen.source) == ("large", "fast", "stored")


def test_without_the_answer_of_a_route_there_is_none(make, tmp_path):
    make(store=tmp_path / "store").choose("any", Problem(n=N))
    stored(tmp_path)[f"shape.large.{N}"].unlink()
    events = []
    one = make(store=tmp_path / "store", listener=events.append)
    assert one.foresee("any", Problem(n=N), "warm") is None
    kernel = one.bind("any", n=N)
    assert (kernel.member, kernel.result.source) == ("little", "default")
    assert [(it.kind, it.family, it.member) for it in events] == [("default", "any", "little")]


def test_a_changed_member_times_its_family_and_the_route_and_nothing_else(make, tmp_path):
    make(store=tmp_path / "store").choose("any", Problem(n=N))
    before = {name: path.read_text() for name, path in stored(tmp_path).items()}
    changed = {**FAMILIES, "large": {"fast": {**FAST, "grain": 1024}, "slow": SLOW}}
    dropped = []
    one = make(changed, store=tmp_path / "store", listener=dropped.append)
    timed = []
    real = one._trials.trial
    one._trials.trial = lambda assembled, *rest: (  # type: ignore[method-assign]
        timed.append(assembled.family.name) or real(assembled, *rest)
    )
    result = one.choose("any", Problem(n=N))
    assert (result.member, result.serving) == ("large", "fast")
    assert [(it.kind, it.family) for it in dropped] == [("dropped", "large"), ("dropped", "any")]
    after = {name: path.read_text() for name, path in stored(tmp_path).items()}
    assert after[f"shape.little.{N}"] == before[f"shape.little.{N}"]
    for name in (f"shape.large.{N}", f"shape.any.{N}"):
        assert after[name].split("\n")[1] != before[name].split("\n")[1]


def test_a_member_that_serves_in_no_route_may_change(make, tmp_path):
    make(store=tmp_path / "store").choose("any", Problem(n=N))
    changed = {**FAMILIES, "large": {"fast": FAST, "slow": {**SLOW, "grain": 256}}}
    dropped = []
    one = make(changed, store=tmp_path / "store", listener=dropped.append)
    assert one.choose("any", Problem(n=N)).source == "stored"
    assert [it.family for it in dropped] == ["large"]


def test_members_are_timed_as_they_were_chosen(make):
    one = make({**FAMILIES, "large": {"slow": SLOW, "fast": FAST}}, tuning="off")
    result = one.choose("any", Problem(n=2 * N + 1))
    assert (result.member, result.serving, result.source) == ("large", "fast", "only")
    [timed] = one.time_members("any", f"{2 * N + 1}", "warm")
    own = one.time_members("large", f"{2 * N + 1}", "warm")
    slow_ns = next(each.median_ns for each in own if each.name == "slow")
    assert (timed.name, timed.status) == ("large", "survivor")
    assert timed.median_ns < slow_ns
    assert one.bind("any", n=2 * N + 1).result.source == "default"  # as the policy says


# Overrides


def test_a_variable_forces_a_route_and_another_its_member(make, monkeypatch):
    monkeypatch.setenv("XPU_SHAPE_ANY", "large")
    one = make(tuning="first-use")
    kernel = one.bind("any", n=N)
    assert (kernel.member, kernel.result.serving, kernel.result.source) == (
        "large",
        "fast",
        "override",
    )
    monkeypatch.setenv("XPU_SHAPE_LARGE", "slow")
    one.clear_override("any")  # binds anew
    kernel = one.bind("any", n=N)
    assert (kernel.member, kernel.result.serving) == ("large", "slow")
    monkeypatch.delenv("XPU_SHAPE_ANY")
    one.clear_override("any")
    result = one.bind("any", n=N).result
    assert {member.name: member.serving for member in result.members}["large"] == "slow"


def test_an_override_goes_past_when(make):
    one = make()
    one.override("any", "large")
    assert one.bind("any", n=32).member == "large"
    assert one.bind("any", n=N).member == "large"


def test_an_override_goes_past_no_limit_of_the_design(make, monkeypatch):
    one = make()
    one.override("any", "large")
    monkeypatch.setattr(
        "xpu.orchestrator.routes.why_not",
        lambda _registry, family, _problem: "not today" if family.name == "large" else "",
    )
    with pytest.raises(XpuLaunchException, match="the override 'large' cannot serve: not today"):
        one.bind("any", n=N + 4)


def test_a_wrong_override_is_named(make, monkeypatch):
    one = make()
    one.override("any", "larg")
    with pytest.raises(
        XpuLaunchException, match=r"any 20000: the override 'larg' is no member; did"
    ):
        one.bind("any", n=N)
    one.clear_override("any")
    monkeypatch.setattr(routes, "routes_in", lambda *_: one.settings.family("any").routes[:1])
    one.override("any", "large")
    with pytest.raises(XpuLaunchException, match=r"'large' has no source in 'c'; allowed: little$"):
        one.bind("any", n=N)
    monkeypatch.undo()
    one.clear_override("any")
    monkeypatch.setenv("XPU_SHAPE_LITTLE", "three")
    with pytest.raises(
        XpuLaunchException, match=r"little 20000: the override 'three' is no member"
    ):
        one.bind("any", n=N)
    assert one.bind("any", n=2 * N + 1).member == "large"  # which that variable does not concern


# Routes that cannot serve


def test_a_route_that_cannot_serve_costs_the_others_nothing(make):
    families = {"little": {"bad": {"mode": toy.WRONG}, "worse": {"mode": toy.NO_COMPILE}}}
    one = make({**FAMILIES, **families}, tuning="first-use")
    kernel = one.bind("any", n=N)
    assert (kernel.member, kernel.result.serving) == ("large", "fast")
    members = {member.name: member for member in kernel.result.members}
    # Its one member that compiles serves alone, so that it is the comparison that finds it out.
    assert (members["little"].status, members["little"].serving) == ("wrong", "bad")
    assert "largest error 1" in members["little"].note
    broken = {"little": {"worse": {"mode": toy.NO_COMPILE}}}
    kernel = make({**FAMILIES, **broken}, tuning="first-use").bind("any", n=N)
    assert (kernel.member, kernel.result.source) == ("large", "only")
    members = {member.name: member for member in kernel.result.members}
    assert members["little"].status == "failed"
    assert "this member does not compile" in members["little"].note


def test_a_refusal_names_every_route_with_its_reason(make):
    broken = {"a": {"mode": toy.NO_COMPILE}}
    one = make({"little": broken, "large": broken}, {"little": "problem.n <= 64", "large": "0 < 1"})
    with pytest.raises(XpuLaunchException) as error:
        one.bind("any", n=N)
    said = str(error.value)
    assert said.startswith(f"any: nothing can be launched for {N}: ")
    assert "little: pruned (problem.n <= 64 does not hold)" in said
    assert "large: failed (large: nothing can be launched" in said
    assert "this member does not compile" in said


def test_a_problem_that_no_route_takes_is_refused_before_anything_is_built(make, tmp_path):
    one = make(routes={"little": "problem.n < 8", "large": "problem.n // 0 > 1"})
    with pytest.raises(
        Exception, match=r"no route takes it: little: problem.n < 8 does not hold; l"
    ):
        one.bind("any", n=N)
    assert built(tmp_path) == 0


# Buckets, threads, and the open size


def test_an_answer_of_a_bucket_serves_by_the_same_member(make):
    one = make(keys='buckets = { n = "pow2_up" }', tuning="first-use")
    kernel = one.bind("any", n=N)
    assert (kernel.result.problem, kernel.member) == ("32768", "large")
    assert (kernel.result.serving, kernel.problem.key) == ("fast", str(N))
    call(kernel)


def test_while_one_thread_times_the_others_are_served_the_first_route(make, monkeypatch):
    one, inside, may_end = make(tuning="first-use"), threading.Event(), threading.Event()
    real = one._trials.timer.time_ns

    def time_ns(*given, **named):
        inside.set()
        may_end.wait(10)
        return real(*given, **named)

    monkeypatch.setattr(one._trials.timer, "time_ns", time_ns)
    found = []
    thread = threading.Thread(target=lambda: found.append(one.bind("any", n=N)))
    thread.start()
    assert inside.wait(10)
    meanwhile = one.bind("any", n=N)
    assert (meanwhile.member, meanwhile.result.source) == ("little", "default")
    assert not meanwhile.is_final
    assert not one.settled
    may_end.set()
    thread.join()
    assert (found[0].member, found[0].result.source) == ("large", "timed")
    assert one.settled
    assert one.bind("any", n=N).member == "large"


def test_a_route_being_timed_elsewhere_is_waited_for_by_nobody(make, monkeypatch):
    one, inside, may_end = make(tuning="first-use"), threading.Event(), threading.Event()
    real = one._trials.timer.time_ns

    def time_ns(*given, **named):
        inside.set()
        may_end.wait(10)
        return real(*given, **named)

    thread = threading.Thread(target=lambda: one.bind("large", n=N))
    with monkeypatch.context() as patched:
        patched.setattr(one._trials.timer, "time_ns", time_ns)
        thread.start()
        assert inside.wait(10)
        with one.hold():
            held = one.bind("any", n=N)
        may_end.set()
        thread.join()
    assert (held.member, held.result.source, held.is_final) == ("little", "default", False)
    assert one.bind("any", n=N).result.source == "timed"


def test_an_op_crosses_from_route_to_route(make):
    one = make(tuning="off")
    op = one.op("any")
    for n, route in ((32, "little"), (N, "little"), (2 * N + 1, "large")):
        x = np.random.default_rng().standard_normal(n).astype(np.float32)
        y = np.full_like(x, np.nan)
        op(x, out=y)
        assert np.abs(y - (3.0 * x.astype(np.float64) + 1.0)).max() < 1e-4
        assert op.kernel(n).member == route
