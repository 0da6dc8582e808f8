"""Frozen values can be hashed, compared, copied and sent to another process."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from xpu.model import (
    BucketPolicy,
    BufferAccess,
    ChoiceResult,
    DeviceFacts,
    Family,
    KernelFacts,
    Manifest,
    Member,
    MemberResult,
    Operation,
    PluginRecord,
    ProbePlan,
    Problem,
    Rule,
    ShapeCandidate,
    Verdict,
)

CANDIDATE = ShapeCandidate("a", code_hash="00", library="blas 1", tile_m=4, threads=None)
VALUES = [
    CANDIDATE,
    Problem(m=1, n=2**40),
    DeviceFacts(
        backend="b", multiprocessors=4, matrix_shapes=["int8->int32:16x16x32"], further={"l1": 5}
    ),
    KernelFacts(registers=3, spill_bytes=0),
    Member("a", {"tile": 4}, ("c",)),
    Family("f", "d", ("m",), (Member("a"),), constants={"format": "q"}, default={"*": "a"}),
    Rule("R0", "t", need="1", records={"fills": "1"}),
    BucketPolicy("exact", "exact"),
    ProbePlan("p", ("f",), ("1x2",)),
    Verdict(CANDIDATE, rule="R1", need=1, limit=0, records={"fills": True}),
    Manifest(
        "k", "t", "00", "cc", "e", KernelFacts(), (BufferAccess("x", "read"),), (Operation("i"),)
    ),
    MemberResult("a", "pruned", rule="R1", need=1.5),
    ChoiceResult("f", "1", "a", "timed", members=(MemberResult("a"),), foreign_load=0.5),
    PluginRecord("p", "d", "loaded"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_itself_wherever_it_is_taken(value):
    taken = [
        *(pickle.loads(pickle.dumps(value, protocol)) for protocol in range(2, 6)),
        copy.copy(value),
        copy.deepcopy(value),
    ]
    for other in taken:
        assert other == value
        assert hash(other) == hash(value)
        assert repr(other) == repr(value)
    assert len({value, *taken}) == 1


def test_what_was_taken_can_still_not_be_changed():
    facts = pickle.loads(pickle.dumps(VALUES[2]))
    candidate = copy.deepcopy(CANDIDATE)
    for mapping in (facts.further, candidate.parameters):
        before = dict(mapping)
        for change in (
            lambda it: it.update(x=1),
            lambda it: it.pop("l1", None),
            lambda it: it.clear(),
            lambda it: it.setdefault("x", 1),
            lambda it: it.popitem(),
            lambda it: it.__setitem__("x", 1),
            lambda it: it.__delitem__("l1"),
            lambda it: it.__ior__({"x": 1}),
        ):
            with pytest.raises(TypeError, match="changed"):
                change(mapping)
        assert mapping == before
    with pytest.raises(AttributeError, match="changed"):
        candidate.tile_m = 5


def test_the_order_of_named_values_is_kept_and_means_nothing_to_equality():
    one, other = ShapeCandidate("a", x=1, y=2), ShapeCandidate("a", y=2, x=1)
    assert list(other.parameters) == ["y", "x"]
    assert one == other
    assert hash(one) == hash(other)
    assert one != ShapeCandidate("a", x=1, y=3)
    assert one != "a"


def test_mappings_are_plain_enough_for_json():
    assert json.loads(json.dumps(VALUES[2].further)) == {"l1": 5}


def test_a_candidate_without_a_parameter_says_which():
    with pytest.raises(AttributeError, match="'a' has no parameter 'threads'"):
        CANDIDATE.threads  # noqa: B018 - reading it is the test
    assert CANDIDATE.tile_m == 4


@pytest.mark.parametrize(
    ("note", "brief"),
    [
        ("", ""),
        ("largest error 3", "largest error 3"),
        ("f.a: gcc failed: a.c:5: error: 'X' | 5 | x", "f.a: gcc failed: a.c:5: error: 'X' …"),
        ("f.a: In f:\n  a.c:5: error: 'X'\n 5 |", "f.a: In f: a.c:5: error: 'X' …"),
        ("first\nsecond\n", "first …"),
        ("only\n", "only"),
    ],
)
def test_a_note_in_brief_goes_as_far_as_the_first_error(note: str, brief: str) -> None:
    assert MemberResult("a", "failed", note=note).brief == brief
