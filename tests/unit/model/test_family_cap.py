"""The cap keeps the default, wherever it stands."""

from __future__ import annotations

import random

import pytest

from xpu.model import Family, Member


def family(names, default, cap):
    members = tuple(Member(name) for name in names)
    return Family("f", "d", ("n",), members, default={"c": default}, cap=cap)


@pytest.mark.parametrize(
    ("names", "default", "cap", "kept"),
    [
        ("abcd", "a", 2, "ab"),
        ("abcd", "d", 2, "ad"),
        ("abcd", "d", 1, "d"),
        ("abcd", "c", 4, "abcd"),
        ("abcd", "c", 9, "abcd"),
    ],
)
def test_the_first_members_and_the_default_are_kept_in_order(names, default, cap, kept):
    assert "".join(family(names, default, cap).within_cap(names, "c")) == kept


def test_a_default_that_was_ruled_out_takes_no_place():
    names = list("abcdefgh")
    random.Random().shuffle(names)
    eligible = names[:5]
    assert family(names, names[7], 3).within_cap(eligible, "c") == tuple(eligible[:3])
