"""Declarations by decorators: what they add to a design, and what they refuse."""

from __future__ import annotations

import pytest

from xpu.model import Declarations, Member, Unbounded, Unlowered
from xpu.spec import (
    Design,
    Preparation,
    fast_math,
    instantiate,
    occupancy,
    requires,
    unbounded,
    unlowered,
    wave,
)


class Plain(Design):
    pass


@occupancy(max_threads="member.threads")
@wave(width=32)
@fast_math
@instantiate("big", dialects=("simt",), tile=128)
@instantiate("small", tile=64)
@requires("member.tile % 64 == 0")
@unlowered("issue 7", "far", gate="spill", targets=["t1"], members=["big"])
@unlowered("issue 8", "near")
@unbounded("issue 9")
class Declared(Design):
    pass


def test_a_design_says_all_that_is_declared():
    assert Declared.declared == Declarations(
        max_threads="member.threads",
        wave=32,
        fast_math=True,
        members=(Member("small", {"tile": 64}), Member("big", {"tile": 128}, ("simt",))),
        requires=("member.tile % 64 == 0",),
        unlowered=(
            Unlowered("issue 8", "near"),
            Unlowered("issue 7", "far", "spill", ("t1",), ("big",)),
        ),
        unbounded=(Unbounded("issue 9"),),
    )
    assert Plain.declared == Declarations() == Design.declared


def test_a_subclass_inherits_and_adds():
    @requires("member.tile < 999")
    @occupancy(max_waves=4)
    class Sub(Declared):
        pass

    assert Sub.declared.requires == ("member.tile % 64 == 0", "member.tile < 999")
    assert (Sub.declared.max_threads, Sub.declared.max_waves) == (None, 4)
    assert Declared.declared.max_waves is None


def test_a_preparation_may_bound_its_launches():
    @occupancy(max_threads=256)
    class Prepares(Preparation):
        pass

    assert Prepares.declared.max_threads == 256
    with pytest.raises(TypeError, match="@requires stands on a Design, not on"):
        requires("1")(Prepares)


def test_a_family_is_put_over_its_design():
    upper = Declarations(max_waves=2, fast_math=False, unbounded=(Unbounded("u"),))
    over = upper.over(Declared.declared)
    assert (over.max_threads, over.max_waves, over.wave, over.fast_math) == (None, 2, 32, False)
    assert over.unbounded == (Unbounded("issue 9"), Unbounded("u"))
    assert Declarations().over(Declared.declared) == Declared.declared


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: occupancy(), "one of them"),
        (lambda: occupancy(max_threads=1, max_waves=1), "one of them"),
        (lambda: occupancy(max_threads=0), "1 or more"),
        (lambda: occupancy(max_waves=True), "1 or more"),
        (lambda: wave(width=""), "1 or more"),
        (lambda: instantiate("a", tile="8"), "tile is a whole number"),
        (lambda: instantiate("prepare", tile=8), "give the shape another name"),
        (lambda: instantiate("a")(instantiate("a")(type("T", (Design,), {}))), "stands twice"),
        (lambda: requires(""), "not empty"),
        (lambda: unlowered("item", ""), "not empty"),
        (lambda: unlowered("item", "b", gate="spills"), "did you mean 'spill'"),
        (lambda: unbounded(3), "not empty"),
        (lambda: fast_math(int), "stands on a Design or a Preparation"),
        (lambda: fast_math(lambda: 0), "stands on a Design or a Preparation"),
    ],
)
def test_what_is_no_declaration_is_refused_where_it_stands(make, says):
    with pytest.raises(TypeError, match=says):
        make()
