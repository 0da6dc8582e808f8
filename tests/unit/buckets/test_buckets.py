import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpu.buckets import bucket, bucket_problem, check_policy, family_bucket
from xpu.errors import XpuConfigError
from xpu.model import BucketPolicy, Family, Problem

SHIPPED_FILE = Path(__file__).parents[3] / "config" / "buckets.toml"
ROUNDS = st.sampled_from(["up", "down", "nearest"])


def shipped():
    tables = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))["buckets"]
    return {
        name: BucketPolicy(name, **{**keys, "values": tuple(keys.get("values", ()))})
        for name, keys in tables.items()
    }


@st.composite
def policies(draw):
    kind = draw(st.sampled_from(["exact", "pow2", "list", "linear"]))
    least = draw(st.integers(0, 40))
    most = draw(st.none() | st.integers(least, 2000))
    values = draw(st.sets(st.integers(1, 500), min_size=1)) if kind == "list" else ()
    step = draw(st.integers(1, 100)) if kind == "linear" else None
    return BucketPolicy("p", kind, draw(ROUNDS), least, most, tuple(sorted(values)), step)


@pytest.mark.parametrize(
    ("how", "size", "expected"),
    [
        ("up", 1, 1),
        ("up", 5, 8),
        ("up", 8, 8),
        ("up", 9, 16),
        ("down", 9, 8),
        ("down", 15, 8),
        ("nearest", 5, 4),
        ("nearest", 6, 8),
        ("nearest", 7, 8),
        ("nearest", 3, 4),
        ("up", 0, 0),
    ],
)
def test_pow2(how, size, expected):
    assert bucket(BucketPolicy("p", "pow2", how), size) == expected


@pytest.mark.parametrize(
    ("how", "size", "expected"),
    [
        ("up", 1, 4),
        ("up", 5, 10),
        ("up", 10, 10),
        ("up", 11, None),
        ("down", 11, 10),
        ("down", 9, 4),
        ("down", 3, None),
        ("nearest", 7, 10),
        ("nearest", 6, 4),
        ("nearest", 1, 4),
        ("nearest", 99, 10),
    ],
)
def test_list(how, size, expected):
    assert bucket(BucketPolicy("p", "list", how, values=(4, 10)), size) == expected


@pytest.mark.parametrize(
    ("how", "size", "expected"),
    [
        ("up", 1, 64),
        ("up", 64, 64),
        ("up", 65, 128),
        ("down", 127, 64),
        ("down", 63, None),
        ("nearest", 96, 128),
        ("nearest", 95, 64),
        ("nearest", 3, 64),
    ],
)
def test_linear(how, size, expected):
    assert bucket(BucketPolicy("p", "linear", how, step=64), size) == expected


@pytest.mark.parametrize("kind", ["exact", "pow2"])
def test_range_ends_belong_to_it(kind):
    policy = BucketPolicy("p", kind, least=4, most=64)
    assert [bucket(policy, size) for size in (3, 4, 64, 65)] == [None, 4, 64, None]


def test_rounding_past_most_is_out_of_bucket():
    assert bucket(BucketPolicy("p", "pow2", most=100), 65) is None
    assert bucket(BucketPolicy("p", "linear", step=64, most=100), 65) is None
    assert bucket(BucketPolicy("p", "list", values=(8, 128), most=100), 9) is None


@given(policies(), st.integers(0, 3000))
def test_a_bucket_is_its_own_bucket_in_range_and_on_the_right_side(policy, size):
    found = bucket(policy, size)
    if found is None:
        return
    assert bucket(policy, found) == found
    assert policy.least <= found <= (found if policy.most is None else policy.most)
    if policy.kind == "exact":
        assert found == size
    elif policy.round == "up":
        assert found >= size
    elif policy.round == "down":
        assert found <= size


@given(policies(), st.lists(st.integers(0, 3000), min_size=2))
def test_buckets_keep_the_order_of_sizes(policy, sizes):
    found = [each for each in (bucket(policy, size) for size in sorted(sizes)) if each is not None]
    assert found == sorted(found)


@given(policies(), st.integers(1, 1500))
def test_nearest_is_the_closest_of_up_and_down(policy, size):
    def rounded(how):
        return bucket(
            BucketPolicy("p", policy.kind, how, 0, None, policy.values, policy.step), size
        )

    around = [each for each in (rounded("up"), rounded("down")) if each is not None]
    best = min(abs(each - size) for each in around)
    assert rounded("nearest") == max(each for each in around if abs(each - size) == best)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (BucketPolicy("p", "pow3"), "did you mean 'pow2'"),
        (BucketPolicy("p", "pow2", "upp"), "did you mean 'up'"),
        (BucketPolicy("p", "list"), "needs values"),
        (BucketPolicy("p", "list", values=(4, 4)), "4 follows 4"),
        (BucketPolicy("p", "list", values=(8, 4)), "4 follows 8"),
        (BucketPolicy("p", "list", values=(0, 4)), "1 or more"),
        (BucketPolicy("p", "linear"), "needs a step"),
        (BucketPolicy("p", "linear", step=0), "1 or more"),
        (BucketPolicy("p", "exact", least=5, most=4), "above most"),
        (BucketPolicy("p", "exact", least=-1), "0 or more"),
        (BucketPolicy("p", "pow2", values=(1,)), "kind 'list'"),
        (BucketPolicy("p", "pow2", step=4), "kind 'linear'"),
    ],
)
def test_an_unusable_policy_says_why_and_serves_nothing(policy, said):
    assert said in check_policy(policy)
    with pytest.raises(XpuConfigError, match="bucket policy 'p'"):
        bucket(policy, 4)


def test_a_problem_takes_the_policy_of_each_size_and_the_others_stay_exact():
    found = bucket_problem(
        Problem(m=100, n=4000, k=4096), {"m": "pow2_up", "n": "linear_64"}, shipped()
    )
    assert found == Problem(m=128, n=4032, k=4096)
    assert found.key == "128x4032x4096"


def test_one_size_out_of_bucket_takes_the_problem_with_it():
    assert bucket_problem(Problem(m=513, n=64), {"m": "decode_rows"}, shipped()) is None


def no_fours(problem):
    return f"n = {problem.n}" if problem.n % 4 else ""


def test_a_bucket_that_the_family_cannot_serve_is_no_place_to_measure():
    policies = {"sixes": BucketPolicy("sixes", "linear", step=6, most=100)}
    family = Family("f", "fours", ("n",), (), buckets={"n": "sixes"})
    found = [family_bucket(family, Problem(n=n), policies, no_fours) for n in (4, 8, 100)]
    assert found == [Problem(n=4), Problem(n=12), None]


def test_an_undeclared_policy_is_named_with_the_nearest():
    with pytest.raises(XpuConfigError, match=r"size 'm'.*did you mean 'pow2_up'"):
        bucket_problem(Problem(m=5), {"m": "pow2up"}, shipped())


def test_the_shipped_policies_are_usable_and_of_every_kind():
    policies = shipped()
    assert {policy.kind for policy in policies.values()} == {"exact", "pow2", "list", "linear"}
    assert {policy.round for policy in policies.values()} == {"up", "down", "nearest"}
    for policy in policies.values():
        assert check_policy(policy) == ""
        assert bucket(policy, 1) == 1 or policy.kind == "linear"
    assert policies["exact"].most is None
