"""What stands for a value in a memo of launches: alike only where code cannot tell one apart."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from xpu.adaptor.likeness import likeness, likeness_of_owner
from xpu.folding import Parameters
from xpu.model import Member
from xpu.spec import Argument


class Owner:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Slotted(Owner):
    __slots__ = ("hidden",)


class Table(dict):
    pass


class Word(str):
    __slots__ = ()


def members(**parameters):
    return Member("a", parameters).parameters


@pytest.mark.parametrize(
    "make",
    [
        lambda: (1, "a", None, True, b"b"),
        lambda: [{"a": (1, 2)}],
        lambda: MappingProxyType({"a": 1}),
        lambda: members(a=1, b=2),
        lambda: Parameters(members(a=1), frozenset({"splits"})),
        lambda: Argument("x", "float32", "read"),
    ],
)
def test_what_is_made_the_same_is_alike(make):
    assert likeness(make()) == likeness(make())
    assert hash(likeness(make())) == hash(likeness(make()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        ("a", b"a"),
        ((1,), [1]),
        ({"a": 1}, {"a": True}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, MappingProxyType({"a": 1})),
        (Parameters({"a": 1}), Parameters({"a": 1}, frozenset({"splits"}))),
        (Argument("x", "float32", "read"), Argument("x", "float16", "read")),
        (Table(a=1), Table(a=1)),
        (Word("a"), Word("a")),
        (object(), object()),
    ],
)
def test_what_code_could_tell_apart_is_not_alike(one, other):
    assert likeness(one) != likeness(other)
    assert likeness(one) == likeness(one)


def test_objects_of_one_class_with_the_same_attributes_are_alike():
    assert likeness_of_owner(Owner(rows=2)) == likeness_of_owner(Owner(rows=2))
    assert likeness_of_owner(Owner(rows=2)) != likeness_of_owner(Owner(rows=4))
    assert likeness_of_owner(Owner(rows=object())) != likeness_of_owner(Owner(rows=object()))


def test_an_object_that_keeps_more_than_its_attributes_is_like_itself_alone():
    for cls in (Slotted, type("Many", (Owner, list), {})):
        one, other = cls(), cls()
        assert likeness_of_owner(one) != likeness_of_owner(other)
        assert likeness_of_owner(one) == likeness_of_owner(one)


def test_an_owner_that_holds_itself_or_is_too_deep_is_like_itself_alone():
    endless: list[object] = []
    endless.append(endless)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for held in (endless, {"a": endless}, deep):
        one, other = Owner(held=held), Owner(held=held)
        assert likeness_of_owner(one) != likeness_of_owner(other)
        assert likeness_of_owner(one) == likeness_of_owner(one)


def test_an_owner_is_like_what_it_is_now():
    owner = Owner(rows=2)
    before = likeness_of_owner(owner)
    owner.rows = 4
    assert likeness_of_owner(owner) != before
