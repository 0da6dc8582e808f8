"""How a size becomes the size under which its answer is kept.

A bucket is itself a size of the problem: the one that is measured. A size outside the
policy's range, or whose bucket would be, has none: the default serves it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import BucketPolicy, Family, Problem, nearest

_KINDS: Final = ("exact", "pow2", "list", "linear")
_ROUNDS: Final = ("up", "down", "nearest")


def bucket(policy: BucketPolicy, size: int) -> int | None:
    """Return the bucket of a size; None when it is out of bucket.

    A size of 0 is its own bucket, and no other size is put into it: nothing can be measured
    there. With ``nearest`` the larger bucket wins a tie.

    Raises
    ------
    XpuConfigError
        The policy is unusable.
    """
    problem = check_policy(policy)
    if problem:
        raise XpuConfigError(f"bucket policy {policy.name!r}: {problem}")
    if not _in_range(policy, size):
        return None
    if size == 0 or policy.kind == "exact":
        return size
    lower, upper = _neighbours(policy, size)
    found = _round(policy.round, size, lower, upper)
    return found if found is not None and _in_range(policy, found) else None


def bucket_problem(
    problem: Problem, buckets: Mapping[str, str], policies: Mapping[str, BucketPolicy]
) -> Problem | None:
    """Return the problem with every size in its bucket; None when one is out of bucket.

    Parameters
    ----------
    problem
        The real sizes.
    buckets
        Names of policies by size, as a family declares them; a size without one is exact.
    policies
        The policies by name.

    Raises
    ------
    XpuConfigError
        A policy is not declared, or unusable.
    """
    found: dict[str, int] = {}
    for name, size in problem.sizes.items():
        policy_name = buckets.get(name)
        if policy_name is None:
            found[name] = size
            continue
        policy = policies.get(policy_name)
        if policy is None:
            raise XpuConfigError(
                f"size {name!r}: no bucket policy is called {policy_name!r}; "
                f"{nearest(policy_name, policies)}"
            )
        rounded = bucket(policy, size)
        if rounded is None:
            return None
        found[name] = rounded
    return Problem(**found)


def family_bucket(
    family: Family,
    problem: Problem,
    policies: Mapping[str, BucketPolicy],
    why_not: Callable[[Problem], str],
) -> Problem | None:
    """Return the problem whose answer serves a problem of a family; None when out of bucket.

    A bucket that the family cannot serve (a size that must be a multiple, rounded) is no place
    to measure: the problem is then its own bucket. `why_not` says so of one; it gives the empty
    text for one that the family serves.
    """
    rounded = bucket_problem(problem, family.buckets, policies)
    if rounded is None:
        return None
    return problem if why_not(rounded) else rounded


def check_policy(policy: BucketPolicy) -> str:
    """Return why a policy is unusable; the empty text when it is fine."""
    for key, value, allowed in (("kind", policy.kind, _KINDS), ("round", policy.round, _ROUNDS)):
        if value not in allowed:
            return f"no {key} is called {value!r}; {nearest(value, allowed)}"
    if policy.least < 0:
        return f"least is {policy.least}; allowed: 0 or more"
    if policy.most is not None and policy.least > policy.most:
        return f"least is {policy.least} and most {policy.most}; least may not be above most"
    return _check_values(policy) or _check_step(policy)


def _check_values(policy: BucketPolicy) -> str:
    values = policy.values
    if policy.kind != "list":
        return f"values belong to kind 'list', not {policy.kind!r}" if values else ""
    if not values:
        return "kind 'list' needs values, for instance values = [1, 2, 4, 8]"
    if values[0] < 1:
        return f"values begin with {values[0]}; allowed: 1 or more"
    for before, after in itertools.pairwise(values):
        if before >= after:
            return f"values ascend, but {after} follows {before}"
    return ""


def _check_step(policy: BucketPolicy) -> str:
    if policy.kind != "linear":
        unused = policy.step is not None
        return f"step belongs to kind 'linear', not {policy.kind!r}" if unused else ""
    if policy.step is None:
        return "kind 'linear' needs a step, for instance step = 64"
    return "" if policy.step >= 1 else f"step is {policy.step}; allowed: 1 or more"


def _in_range(policy: BucketPolicy, size: int) -> bool:
    return policy.least <= size and (policy.most is None or size <= policy.most)


def _neighbours(policy: BucketPolicy, size: int) -> tuple[int | None, int | None]:
    """Return the largest bucket up to a size and the smallest from it on."""
    if policy.kind == "pow2":
        lower = 1 << (size.bit_length() - 1)
        return lower, lower if lower == size else 2 * lower
    if policy.kind == "list":
        return (
            max((value for value in policy.values if value <= size), default=None),
            min((value for value in policy.values if value >= size), default=None),
        )
    step = policy.step or 1
    return size // step * step or None, -(-size // step) * step


def _round(how: str, size: int, lower: int | None, upper: int | None) -> int | None:
    if how == "up":
        return upper
    if how == "down":
        return lower
    if lower is None or upper is None:
        return upper if lower is None else lower
    return upper if upper - size <= size - lower else lower
