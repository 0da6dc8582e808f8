"""Which family takes a problem, and in which dialect, before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xpu.model import Family, Member, Problem, Route
from xpu.registry import Registry, routes_in, speaks, turned_away, why_not
from xpu.spec import KernelSource

Make = Callable[..., Any]


def few(_self: object, problem: Problem, constants: object) -> str:
    return "" if problem.m <= 4 else f"m = {problem.m} is above 4"


@pytest.fixture
def registry(plugin: Make, design: Make) -> Registry:
    one = plugin(
        xpu_designs=[design("any", check_problem=lambda *_: ""), design("few", check_problem=few)],
        xpu_kernel_sources=[KernelSource("other", "text", design="few")],
    )
    return Registry.from_plugins([("one", one, "d")])


def family(design: str, *dialects: str | None) -> Family:
    members = tuple(
        Member(f"m{number}", dialects=None if dialect is None else (dialect,))
        for number, dialect in enumerate(dialects)
    )
    return Family(design, design, ("m", "n"), members)


def both(when: str | None = None) -> Family:
    routes = [Route(family("few", "c", "other")), Route(family("any", "c"), when)]
    return Family.of_routes("both", ("m", "n"), routes)


def test_a_family_takes_what_its_design_takes(registry: Registry) -> None:
    assert why_not(registry, family("few", "c"), Problem(m=5, n=1)) == "m = 5 is above 4"
    assert why_not(registry, family("few", "c"), Problem(m=4, n=1)) == ""


def test_a_family_of_routes_takes_what_one_of_them_takes(registry: Registry) -> None:
    few_rows, many = Problem(m=1, n=2), Problem(m=9, n=2)
    assert why_not(registry, both(), many) == ""
    narrow = both("problem.m * problem.n < 4")
    assert why_not(registry, narrow, few_rows) == ""
    assert why_not(registry, narrow, many) == (
        "no route takes it: few: m = 9 is above 4; any: problem.m * problem.n < 4 does not hold"
    )
    assert [turned_away(registry, route, few_rows) for route in narrow.routes] == ["", ""]


def test_a_condition_without_a_value_is_absent_and_does_not_hold(registry: Registry) -> None:
    [_, route] = both("problem.m // (problem.n - 2) >= 0").routes
    assert turned_away(registry, route, Problem(m=1, n=3)) == ""
    assert turned_away(registry, route, Problem(m=1, n=2)).endswith(" >= 0 is absent")


def test_a_dialect_is_spoken_where_members_and_a_source_are_there(registry: Registry) -> None:
    assert speaks(registry, family("few", "other"), "other")  # by a source that a plugin adds
    assert speaks(registry, family("any", None), "c")
    assert not speaks(registry, family("any", "simt"), "simt")  # no source
    assert not speaks(registry, family("any", "simt"), "c")  # no member
    names = {
        dialect: [route.family.name for route in routes_in(registry, both(), dialect)]
        for dialect in ("c", "other", "simt")
    }
    assert names == {"c": ["few", "any"], "other": ["few"], "simt": []}
    assert [speaks(registry, both(), dialect) for dialect in names] == [True, True, False]
