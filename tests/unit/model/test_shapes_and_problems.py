import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpu.errors import XpuConfigError
from xpu.model import Family, Member, Problem, ShapeCandidate, Verdict

sizes = st.dictionaries(
    st.sampled_from(["m", "n", "k", "batch"]), st.integers(0, 2**40), min_size=1
)


@given(sizes)
def test_a_problem_is_read_back_from_its_key(named):
    problem = Problem(**named)
    assert Problem.parse(list(named), problem.key) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert copy.deepcopy(problem) == problem
    assert hash(Problem(**named)) == hash(problem)
    assert dict(problem.sizes) == named


def test_sizes_are_attributes_in_the_order_given():
    problem = Problem(n=2, m=np.int64(3))
    assert (problem.m, problem.n, problem.key) == (3, 2, "2x3")
    assert type(problem.m) is int
    assert problem.ordered(["m", "n"]).key == "3x2"
    assert problem != Problem(m=3, n=2)
    with pytest.raises(AttributeError, match="'k'"):
        problem.k  # noqa: B018 - reading it is the test
    with pytest.raises(AttributeError, match="changed"):
        problem.m = 4


@pytest.mark.parametrize("bad", [{}, {"m": -1}, {"m": 2**41}, {"m": 1.0}, {"m": True}, {"m": "3"}])
def test_a_size_that_is_none_is_refused(bad):
    with pytest.raises(XpuConfigError):
        Problem(**bad)


@pytest.mark.parametrize(
    "text", ["", "1x2", "1x2x3x4", "1x2x", "axbxc", "1.5x2x3", "-1x2x3", "1 x2x3", "1x2x\u00b2"]
)
def test_a_key_that_does_not_fit_says_what_would(text):
    with pytest.raises(XpuConfigError, match="MxNxK, for instance 4096x4096x4096"):
        Problem.parse(["m", "n", "k"], text)


def test_a_family_orders_exactly_its_own_sizes():
    with pytest.raises(XpuConfigError, match="sizes are m, n; given: m"):
        Problem(m=1).ordered(["m", "n"])
    with pytest.raises(XpuConfigError, match="given: m, x"):
        Problem(m=1, x=2).ordered(["m"])


def test_a_candidate_reads_like_a_record_and_cannot_be_changed():
    candidate = ShapeCandidate("t", code_hash="h", tile_m=64, threads=None)
    assert (candidate.name, candidate.tile_m, candidate.code_hash) == ("t", 64, "h")
    assert dict(candidate.parameters) == {"tile_m": 64}
    assert "tile_m=64" in repr(candidate)
    with pytest.raises(AttributeError, match="no parameter 'threads'"):
        candidate.threads  # noqa: B018 - reading it is the test
    with pytest.raises(AttributeError, match="changed"):
        candidate.tile_m = 3
    with pytest.raises(TypeError):
        candidate.parameters["tile_m"] = 3


def test_candidates_are_equal_when_all_of_them_is():
    first = ShapeCandidate("t", a=1, b=2)
    assert first == ShapeCandidate("t", b=2, a=1)
    assert len({first, ShapeCandidate("t", b=2, a=1)}) == 1
    for other in (
        ShapeCandidate("u", a=1, b=2),
        ShapeCandidate("t", a=1),
        ShapeCandidate("t", a=1, b=2, code_hash="x"),
        ShapeCandidate("t", a=1, b=2, library="x 1"),
        "t",
    ):
        assert first != other


@pytest.mark.parametrize("value", [1.5, "64", True])
def test_a_parameter_is_a_whole_number(value):
    with pytest.raises(XpuConfigError, match="candidate 't': tile_m is a whole number"):
        ShapeCandidate("t", tile_m=value)


def test_a_family_knows_the_default_of_each_dialect():
    members = (Member("a", {"x": 1}, ("simt",)), Member("b"), Member("c", {}, ("c",)))
    family = Family("f", "d", ("m",), members, default={"simt": "b"})
    assert [member.name for member in family.for_dialect("simt")] == ["a", "b"]
    assert family.default_for("simt") == "b"
    assert family.default_for("c") == "b"
    assert Family("f", "d", ("m",), members, default={"*": "c"}).default_for("simt") == "c"
    assert Family("f", "d", ("m",), ()).default_for("c") is None
    assert family.member("c") is members[2]
    assert family.member("z") is None


def test_a_verdict_gives_its_records_and_says_what_it_is():
    verdict = Verdict(ShapeCandidate("t"), records={"splits": 4, "fills": False})
    assert (verdict.is_survivor, verdict.splits, verdict.fills) == (True, 4, False)
    assert verdict.resident_groups is None
    assert str(verdict) == "t: survivor"
    pruned = Verdict(ShapeCandidate("t"), rule="R1", title="spill bytes", need=52, limit=0)
    assert not pruned.is_survivor
    assert str(pruned) == "t: R1 (spill bytes): needs 52, limit 0"
