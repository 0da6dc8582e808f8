"""A family of routes as a value: its members are its routes, in the dialects that they have."""

from __future__ import annotations

import pickle

from xpu.model import ChoiceResult, Family, Member, MemberResult, Route

HOST = Family("host", "d", ("m",), (Member("a", dialects=("c",)), Member("b", dialects=("c",))))
WAVES = Family("waves", "e", ("m",), (Member("a", dialects=("simt", "c")),), {"format": "x"})
EVERYWHERE = Family("everywhere", "f", ("m",), (Member("a"), Member("b", dialects=("c",))))


def test_members_are_its_routes() -> None:
    routes = [Route(WAVES, "problem.m > 1"), Route(HOST), Route(EVERYWHERE)]
    family = Family.of_routes("any", ("m",), routes, buckets={"m": "exact"})
    assert [(member.name, member.dialects) for member in family.members] == [
        ("waves", ("simt", "c")),
        ("host", ("c",)),
        ("everywhere", None),
    ]
    assert (family.design, family.constants, family.cap) == ("e", {"format": "x"}, 3)
    assert family.buckets == {"m": "exact"}
    assert [member.name for member in family.for_dialect("simt")] == ["waves", "everywhere"]
    assert family.default_for("c") == "waves"
    assert family.route("host") == Route(HOST)
    assert family.route("hos") is None
    assert pickle.loads(pickle.dumps(family)) == family
    assert hash(family) == hash(pickle.loads(pickle.dumps(family)))


def test_a_result_says_who_serves_in_the_chosen_route() -> None:
    members = (MemberResult("host", serving="b"), MemberResult("waves"))
    assert ChoiceResult("any", "8", "host", "timed", members=members).serving == "b"
    assert ChoiceResult("any", "8", "waves", "timed", members=members).serving == ""
    assert ChoiceResult("any", "8", "host", "default").serving == ""
    assert [member.title for member in members] == ["host (b)", "waves"]
