"""Launches found in the syntax tree of host code, and their blocks folded for a member."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from itertools import pairwise

import attrs
import pytest

from xpu.adaptor.launch_sites import FoundSite, member_sites, preparation_sites
from xpu.folding import Folder
from xpu.model import Problem
from xpu.spec import Design, KernelSource, Launch, Preparation

SIMT = KernelSource("simt", "")
WIDE = 256


def helper(member: Mapping[str, int], problem: Problem, rows: int = 1) -> Launch:
    grid = (-(-problem.n // rows), 1, 1)
    return Launch(grid=grid, block=(member["threads"], rows, 1))


@functools.cache
def doubled(threads: int) -> int:
    return 2 * threads


class Base(Design):
    waves = 4
    dialects = source = shapes = data = verify = None

    def launch(self, dialect, member, problem):
        if dialect == "c":
            return Launch()
        return Launch((problem.n, 1, 1), (self.threads(member), 1, 1))

    def threads(self, member):
        return 32 * self.waves


def of(launch, **parameters):
    """Return the sites of a launch function, as lines from its first one on, and threads."""
    cls = type("Made", (Base,), {"launch": launch})
    first = launch.__code__.co_firstlineno
    found = member_sites(cls(), SIMT, "simt", parameters)
    assert all(site.where.startswith("tests/unit/adaptor/test_launch_sites.py:") for site in found)
    return [(int(site.where.partition(":")[2]) - first, site.threads) for site in found]


def test_what_is_known_is_not_folded_again(monkeypatch):
    class Wide(Base):
        def __init__(self, waves):
            self.waves = waves

    known = {}
    first = member_sites(Wide(2), SIMT, "simt", {"rows": 1}, known)
    assert [site.threads for site in first] == [64]
    others = [
        member_sites(Wide(4), SIMT, "simt", {"rows": 1}, known),
        member_sites(Wide(2), SIMT, "c", {"rows": 1}, known),
        member_sites(Wide(2), attrs.evolve(SIMT, launch=helper), "simt", {"threads": 7}, known),
        member_sites(Wide(2), attrs.evolve(SIMT, launch=helper), "simt", {"threads": 9}, known),
    ]
    assert [site.threads for sites in others for site in sites] == [128, None, 7, 9]
    monkeypatch.setattr(Folder, "fold", None)
    assert member_sites(Wide(2), SIMT, "simt", {"rows": 1}, known) is first


def test_a_method_of_the_design_and_an_attribute_are_followed():
    class Inherits(Base):
        waves = 8

    [site] = member_sites(Inherits(), SIMT, "simt", {})
    assert site.threads == 256
    assert member_sites(Inherits(), SIMT, "c", {}) == (
        FoundSite(site.where.replace(str(line_of(Base)), str(line_of(Base) - 1)), None, False),
    )


def line_of(cls: type) -> int:
    return inspect.getsourcelines(cls.launch)[1] + 3


def test_super_is_followed_and_a_launch_may_be_evolved():
    class Other(Base):
        def launch(self, dialect, member, problem):
            before = super().launch(dialect, member, problem)
            return attrs.evolve(before, block=(64, 2, 1)) if problem.n < 9 else before

    found = member_sites(Other(), SIMT, "simt", {})
    assert sorted(site.threads for site in found) == [128, 128]
    assert len({site.where for site in found}) == 2


def test_a_helper_takes_a_members_parameters():
    def launch(self, dialect, member, problem):
        return helper(member, problem, rows=2)

    [(_, threads)] = of(launch, threads=64)
    assert threads == 128


def test_both_sides_of_a_condition_on_the_problem_are_sites():
    def launch(self, dialect, member, problem):
        if problem.m > 64:
            return Launch(block=(WIDE, 1, 1))
        block = (doubled(member["threads"]), 1, 1)
        return Launch((1, 1, 1), block)

    assert of(launch, threads=16) == [(2, 256), (4, 32)]


def test_a_condition_on_the_member_takes_one_side():
    def launch(self, dialect, member, problem):
        wide = "wide" in member and member["wide"] >= 1
        threads = 512 if wide else member.get("threads", 96)
        return Launch(block=(threads, 1, 1))

    assert of(launch, wide=1) == [(3, 512)]
    assert of(launch, wide=0) == of(launch) == [(3, 96)]
    assert of(launch, threads=7) == [(3, 7)]


def test_one_call_may_have_several_blocks():
    def launch(self, dialect, member, problem):
        threads = 64 if problem.n < 64 else 128
        return Launch(block=(threads, 2, 1))

    assert sorted(of(launch)) == [(2, 128), (2, 256)]


@pytest.mark.parametrize("text", ["splits", "none"])
def test_what_rules_record_is_not_known_before_a_bind(text):
    def splits(self, dialect, member, problem):
        return Launch(block=(32 * member.get("splits", 1), 1, 1))

    def none(self, dialect, member, problem):
        return Launch(block=(32 * member.get("parts", 1), 1, 1))

    expected = {"splits": [(1, None)], "none": [(1, 32)]}
    assert of({"splits": splits, "none": none}[text]) == expected[text]


def test_what_depends_on_the_problem_does_not_fold():
    def by_size(self, dialect, member, problem):
        return Launch(block=(min(256, problem.n), 1, 1))

    def by_loop(self, dialect, member, problem):
        threads = 32
        while threads < problem.n:
            threads *= 2
        return Launch(block=(threads, 1, 1))

    def by_other_code(self, dialect, member, problem):
        return next(iter([Launch(block=(8, 1, 1))]))

    def by_arguments(self, dialect, member, problem):
        return Launch(*[(1, 1, 1), (problem.n, 1, 1)][: problem.m])

    assert [of(each)[0][1] for each in (by_size, by_loop, by_other_code, by_arguments)] == [
        None
    ] * 4


def test_a_loop_that_returns_and_code_that_cannot_run_are_followed():
    def launch(self, dialect, member, problem):
        for size in (64, 128):
            if problem.n > size:
                return Launch(block=(32, 1, 1))
        if dialect != "simt":
            return Launch(block=(1024, 1, 1))
        try:
            (first, *_rest), last = problem.n, 5
        except ValueError:
            raise
        with suppressed() as _:
            threads = last * 0 + 16
        assert first
        return Launch(block=(threads if last else 16, 1, 1))

    assert (3, 32) in of(launch)
    assert all(threads != 1024 for _, threads in of(launch))


def suppressed() -> None: ...


def test_endless_recursion_and_deep_calls_are_unknown():
    def launch(self, dialect, member, problem):
        return endless(member)

    assert [threads for _, threads in of(launch)] == [None]


def endless(member):
    return endless(member)


def test_an_added_source_launches_by_a_function_or_lambda_of_its_own():
    added = KernelSource("simt", "", launch=lambda member, problem: helper(member, problem))
    [site] = member_sites(Base(), added, "simt", {"threads": 40})
    assert site.threads == 40
    twice = [lambda member, problem: Launch(block=(1, 1, 1)), lambda member, problem: Launch()]
    sites = [member_sites(Base(), attrs.evolve(added, launch=one), "simt", {}) for one in twice]
    # Two on one line cannot be told apart, so that nothing is said of them.
    assert [[site.threads for site in each] for each in sites] == [[None], [None]]


def test_a_partial_is_no_function_whose_text_is_at_hand():
    added = KernelSource("simt", "", launch=functools.partial(helper, rows=2))
    [site] = member_sites(Base(), added, "simt", {"threads": 40})
    assert (site.threads, site.where) == (None, f"{Base.__module__}.Base")


def test_a_preparation_is_folded_by_its_constants():
    class Prepares(Preparation):
        argument = "x"

        def source(self, dialect):
            return SIMT

        def sizes(self, raw_shape, constants):
            return raw_shape

        def prepared_bytes(self, raw_shape, constants):
            return 4

        def launch(self, dialect, raw_shape, constants):
            threads = {"q4_k": 128, "q6_k": 64}[constants["format"]]
            return Launch((raw_shape[0], 1, 1), (threads, 1, 1))

    sites = [preparation_sites(Prepares(), "simt", {"format": each}) for each in ("q4_k", "q6_k")]
    assert [[site.threads for site in each] for each in sites] == [[128], [64]]


def test_many_alternatives_are_unknown():
    def launch(self, dialect, member, problem):
        a = 1 if problem.n & 1 else 2
        b = 3 if problem.n & 2 else 5
        c = 7 if problem.n & 4 else 11
        return Launch(block=(a * b * c, a * b, a * b * c))

    assert of(launch) == [(4, None)]


def test_sites_keep_the_order_of_the_code():
    def launch(self, dialect, member, problem):
        if problem.n == 1:
            return Launch(block=(3, 1, 1))
        if problem.n == 2:
            return Launch(block=(2, 1, 1))
        return Launch(block=(1, 1, 1))

    lines = [line for line, _ in of(launch)]
    assert all(one < other for one, other in pairwise(lines))
