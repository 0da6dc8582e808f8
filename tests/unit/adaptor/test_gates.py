"""Each gate: what makes it fire, what tracks it, and what makes that stale."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from xpu.adaptor import Built, Called
from xpu.adaptor.gates import Named, Subject, findings
from xpu.errors import XpuBuildError, XpuDeadlineError
from xpu.model import Declarations, KernelFacts, LaunchSite, Manifest, Member, Unbounded, Unlowered

SITES = (LaunchSite("plugin/design.py:7"),)


def built(name: str = "f.m", staging=(), sites=(), most=None, **facts) -> Built:
    manifest = Manifest(
        name, "t1", "0" * 64, "cc", "e", KernelFacts(**facts), max_threads=most, launch_sites=sites
    )
    return Built(manifest, Path(), was_cached=False, staging=staging)


def of(result, *declared, target="t1", **more):
    unlowered = tuple(each for each in declared if isinstance(each, Unlowered))
    unbounded = tuple(each for each in declared if isinstance(each, Unbounded))
    told = Declarations(unlowered=unlowered, unbounded=unbounded)
    members = result if isinstance(result, dict) else {"m": result, "good": built("f.good")}
    return findings(Subject("f", "far", target, "cc 12.2.0", told, members, **more))


CAUSES = {
    "spill": (lambda: built(spill_bytes=36), "36 bytes of registers are spilled"),
    "no-code": (lambda: XpuBuildError("f.m, target t1: cc failed"), "cc failed"),
    "deadline": (lambda: XpuDeadlineError("f.m: cc passed its deadline of 60 s"), "of 60 s"),
    "scalar-loop": (lambda: built(vector_instructions=0), "no vector instruction"),
}


@pytest.mark.parametrize("gate", CAUSES)
def test_a_gate_names_kernel_member_target_figure_and_what_would_track_it(gate):
    make, figure = CAUSES[gate]
    [found] = of(make())
    assert (found.gate, found.kernel, found.member, found.target) == (gate, "f.m", "m", "t1")
    assert figure in found.figure
    assert found.item == ""
    line = str(found)
    assert line.startswith(f"{gate}: f.m")
    assert figure in line
    track = f'backend = "far", gate = "{gate}", targets = ["t1"], members = ["m"], '
    assert f'families.f.unlowered = [{{ item = "…", {track}' in line


@pytest.mark.parametrize("gate", CAUSES)
@pytest.mark.parametrize(
    "narrowed",
    [
        {},
        {"targets": ("t0", "t1")},
        {"members": ("m",)},
        {"compilers": ("ld 1", "cc 12.2")},
        {"targets": ("t1",), "members": ("m",), "compilers": ("cc 12.2.0",)},
    ],
)
def test_a_declaration_tracks_its_gate_alone(gate, narrowed):
    result, item = CAUSES[gate][0](), "issue 7"
    [found] = of(result, Unlowered(item, "far", gate, **narrowed))
    assert (found.gate, found.item) == (gate, item)
    assert f"tracked by {item!r}" in str(found)
    for other in (each for each in CAUSES if each != gate):
        found, stale = of(result, Unlowered(item, "far", other, **narrowed))
        assert (found.item, stale.gate) == ("", "stale")


@pytest.mark.parametrize("gate", CAUSES)
def test_a_declaration_whose_cause_is_gone_is_stale(gate):
    [found] = of(built(), Unlowered("issue 7", "far", gate, members=("m",)))
    assert (found.gate, found.kernel, found.item) == ("stale", "f.m", "")
    assert "unlowered 'issue 7' tracks" in found.figure
    [found] = of(built(), Unlowered("issue 7", "far", gate))
    assert (found.gate, found.kernel, found.member) == ("stale", "f", "")


def test_each_member_that_is_named_must_have_the_cause():
    spilled = {name: built(f"f.{name}", spill_bytes=4) for name in "ab"}
    told = Unlowered("i", "far", "spill", members=("a", "b", "c"))
    found = of({**spilled, "c": built("f.c")}, told)
    assert [(one.gate, one.member) for one in found] == [
        ("spill", "a"),
        ("spill", "b"),
        ("stale", "c"),
    ]
    # Without names one cause is enough, and what was not built may have it.
    assert not [
        one for one in of({**spilled, "c": built()}, Unlowered("i", "far", "spill")) if not one.item
    ]
    assert of(built(), Unlowered("i", "far", "spill"), is_whole=False) == ()
    assert of({"a": spilled["a"]}, told)[0].item == "i"


def test_another_backend_target_or_compiler_is_not_spoken_of():
    for told in (
        Unlowered("i", "near", "spill"),
        Unlowered("i", "far", "spill", targets=("t2",)),
        Unlowered("i", "far", "spill", compilers=("cc 1", "cc 12.2.0.1", "ccc", "cc 13")),
    ):
        [found] = of(built(spill_bytes=4), told)
        assert (found.gate, found.item) == ("spill", "")
        assert of(built(), told) == ()


def test_a_launch_that_depends_on_the_problem_is_unbounded():
    open_ = built(sites=(LaunchSite("plugin/design.py:3", 64), *SITES))
    [found] = of(open_)
    assert found.gate == "unbounded-launch"
    assert "plugin/design.py:7" in found.figure
    assert "design.py:3" not in found.figure
    assert "bound it with @occupancy(max_threads=…)" in str(found)
    assert 'families.f.unbounded = [{ item = "…", members = ["m"] }]' in str(found)
    for told in (Unbounded("i"), Unbounded("i", ("m",))):
        [found] = of(open_, told)
        assert found.item == "i"
    assert of(built(sites=SITES, most=256)) == ()


def test_an_unbounded_launch_that_is_bounded_is_stale_where_there_are_blocks():
    bounded = built(sites=SITES, most=256)
    for told in (Unbounded("i"), Unbounded("i", ("m",))):
        [found] = of(bounded, told)
        assert (found.gate, found.item) == ("stale", "")
        assert of(built(), told) == ()
        assert [one.gate for one in of(XpuBuildError("f.m: no"), told)] == ["no-code"]


def test_what_runs_before_a_member_and_the_preparation_are_looked_at():
    stage = built("f.m.stage_x", spill_bytes=8, vector_instructions=0)
    found = of(built(staging=(stage,)))
    assert [(one.gate, one.kernel, one.member) for one in found] == [("spill", "f.m.stage_x", "m")]
    found = of(Called("f.m", "gemm", staging=(stage,)))
    assert [one.kernel for one in found] == ["f.m.stage_x"]
    prepare = built("f.prepare", spill_bytes=8, vector_instructions=0)
    told = Unlowered("i", "far", "spill", members=("prepare",))
    [found] = of(built(), told, preparation=prepare)
    assert (found.kernel, found.item) == ("f.prepare", "i")
    assert of(built(), told)[0:] == ()


def test_absent_figures_find_nothing():
    assert of(built()) == of(built(vector_instructions=3, spill_bytes=0)) == ()
    assert of(Called("f.m", "gemm", missing="install it")) == ()


NAMED = Named(("far", "near"), "c", (Member("m"), Member("good"), Member("tile", {}, ("simt",))))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (Unlowered("i", "fra"), "backend 'fra', which no loaded plugin brings; did you mean 'far'"),
        (
            Unlowered("i", "far", members=("god",)),
            "member 'god', which is not there in dialect 'c'",
        ),
        (Unlowered("i", "far", members=("prepare",)), "member 'prepare', which is not there in"),
        (Unlowered("i", "far", members=("tile",)), "member 'tile', which is not there in dialect"),
        (Unbounded("i", ("til",)), "member 'til', which is not there; did you mean 'tile'"),
        (Unlowered("i", "far", targets=("t9",)), "target 't9', which cc 12.2.0 does not know"),
        (Unlowered("i", "far", targets=("t9",), compilers=("cc 12",)), "target 't9'"),
    ],
)
def test_what_could_never_fire_is_stale(told, says):
    [found] = of(built(), told, named=attrs.evolve(NAMED, unknown_targets={"t9"}))
    assert (found.gate, found.kernel, found.member, found.item) == ("stale", "f", "", "")
    assert says in str(found)
    assert str(found).endswith("correct the name, or take it out")


@pytest.mark.parametrize(
    "told",
    [
        Unlowered("i", "elsewhere", members=("x",)),  # it may not be installed here
        Unlowered("i", "near", targets=("t9",), members=("tile",)),  # judged where that is built
        Unlowered("i", "far", targets=("t9",), compilers=("cc 11",)),  # which may know it
        Unlowered("i", "far", targets=("t2",), members=("m",)),
        Unbounded("i", ("tile", "prepare")),
    ],
)
def test_what_may_fire_elsewhere_is_not_judged(told):
    assert of(built(), told, named=attrs.evolve(NAMED, unknown_targets={"t9"})) == ()


def test_a_preparation_that_is_there_may_be_named():
    prepare, told = (
        built("f.prepare", spill_bytes=8),
        Unlowered("i", "far", "spill", (), ("prepare",)),
    )
    [found] = of(built(), told, preparation=prepare, named=NAMED)
    assert (found.kernel, found.item) == ("f.prepare", "i")
