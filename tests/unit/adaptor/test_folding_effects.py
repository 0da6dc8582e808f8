"""The block that is folded of a launch in ordinary Python is the real one, or unknown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from xpu.adaptor.launch_sites import member_sites
from xpu.model import Problem
from xpu.spec import Design, KernelSource, Launch

FIXED = Launch(block=(512, 1, 1))
SIZES = [64]
WIDTH = 64
PARAMETERS = {"threads": 64}


class Base(Design):
    lanes = 64
    fixed = Launch(block=(256, 1, 1))
    dialects = source = shapes = data = verify = None

    def widen(self) -> None:
        self.lanes = 1024


def four_times(fn: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(fn)
    def inner(*given: Any, **named: Any) -> int:
        return 4 * fn(*given, **named)

    return inner


class Counted:
    """A wrapper that is no function."""

    def __init__(self, fn: Callable[..., int]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn

    def __call__(self) -> int:
        return 4 * self.fn()


@four_times
def wrapped() -> int:
    return 64


@functools.cache
@four_times
def wrapped_and_kept() -> int:
    return 64


@Counted
def counted() -> int:
    return 64


def set_wide(table: dict[str, int]) -> None:
    table["w"] = 1024


def add_to(sizes: list[int], more: int = 8) -> int:
    sizes.append(more)
    return 0


def applied(function: Callable[[int], Any], value: int) -> None:
    function(value)


def widens() -> None:
    global WIDTH
    WIDTH = 1024


def stepped(table: dict[str, int]):
    yield 1
    set_wide(table)


def in_place(self, member, problem):
    block = [32, 1, 1]
    block[0] *= 8
    return block[0]


def appended(self, member, problem):
    sizes = [64]
    sizes.append(8)
    return sum(sizes)


def updated(self, member, problem):
    table = dict(member)
    table.update(threads=1024)
    return table["threads"]


def updated_table(self, member, problem):
    table = {**member}
    table |= {"threads": 1024}
    return table["threads"]


def aliased(self, member, problem):
    sizes = [64]
    other = sizes
    other[0] = 1024
    return sizes[0]


def aliased_parameters(self, member, problem):
    other = member
    other["threads"] = 1024
    return member["threads"]


def within_another(self, member, problem):
    sizes = [64]
    held = (sizes, 1)
    held[0].append(960)
    return sum(sizes)


def added_to(self, member, problem):
    sizes = [64]
    other = sizes
    other += [960]
    return sum(sizes)


def added_to_what_is_unknown(self, member, problem):
    sizes = [64]
    other = [sizes][problem.n - problem.n]
    other += [960]
    return sum(sizes)


def by_an_inner_function(self, member, problem):
    table = {"w": 64}

    def widen():
        table["w"] = 1024

    widen()
    return table["w"]


def by_an_inner_name(self, member, problem):
    width = 64

    def widen():
        nonlocal width
        width = 1024

    widen()
    return width


def by_a_lambda(self, member, problem):
    table = {"w": 64}
    (lambda: table.update(w=1024))()
    return table["w"]


def by_a_helper(self, member, problem):
    table = {"w": 64}
    set_wide(table)
    return table["w"]


def by_a_helper_in_a_comprehension(self, member, problem):
    table = {"w": 64}
    [set_wide(table) for _ in range(2)]
    return table["w"]


def by_a_helper_in_an_argument(self, member, problem):
    sizes = [64]
    return 64 + f"{add_to(sizes, 960)}".count("7") + sum(sizes) - 64


def by_a_method_that_is_handed_on(self, member, problem):
    sizes = [64]
    applied(sizes.append, 960)
    return sum(sizes)


def by_a_method_in_a_name(self, member, problem):
    sizes = [64]
    add = sizes.append
    add(960)
    return sum(sizes)


def by_a_key(self, member, problem):
    sizes = [64]
    max([960, 1], key=sizes.append and functools.partial(add_to, sizes))
    return sum(sizes)


def by_map(self, member, problem):
    sizes = [64]
    list(map(sizes.append, (960,)))
    return sum(sizes)


def by_a_generator(self, member, problem):
    table = {"w": 64}
    for _ in stepped(table):
        pass
    return table["w"]


def in_a_loop(self, member, problem):
    sizes, found = [64], 0
    for _ in range(2):
        found = sizes[0]
        sizes[0] = 1024
    return found


def of_the_file(self, member, problem):
    try:
        SIZES.append(960)
        return sum(SIZES)
    finally:
        SIZES.pop()


def a_global(self, member, problem):
    widens()
    return WIDTH


def an_attribute(self, member, problem):
    self.widen()
    return self.lanes


def an_attribute_by_name(self, member, problem):
    setattr(self, "lanes", 1024)  # noqa: B010 - assigned by a call is what is tried
    return self.lanes


def wrapped_helper(self, member, problem):
    return wrapped() + wrapped_and_kept()


def wrapped_by_an_object(self, member, problem):
    return counted()


def matched(self, member, problem):
    n = 64
    match problem:
        case object(n=n):
            pass
    return n


def matched_whole(self, member, problem):
    w = 64
    match (1024, 1):
        case (w, _):
            pass
    return w


def matched_rest(self, member, problem):
    first, rest = 64, [64]
    match [1, 1024]:
        case [first, *rest]:
            pass
    return first * rest[0]


def by_a_walrus(self, member, problem):
    w = 64
    [w := 1024 for _ in (1,)]
    return w


def by_a_walrus_of_an_assertion(self, member, problem):
    w = 64
    assert (w := 1024)  # noqa: RUF018 - bound by an assertion is what is tried
    return w


def by_a_handler(self, member, problem):
    w = 64
    try:
        raise ValueError(1024)
    except ValueError as w:
        return w.args[0]
    return w


def by_an_item_of_a_loop(self, member, problem):
    sizes = [64]
    for sizes[0] in (1, 1024):
        pass
    return sizes[0]


def deleted(self, member, problem):
    sizes = [64, 1024]
    del sizes[0]
    return sizes[0]


CASES = [
    *(in_place, appended, updated, updated_table, aliased, aliased_parameters, within_another),
    *(added_to, added_to_what_is_unknown, by_an_inner_function, by_an_inner_name, by_a_lambda),
    *(by_a_helper, by_a_helper_in_a_comprehension, by_a_helper_in_an_argument),
    *(by_a_method_that_is_handed_on, by_a_method_in_a_name, by_a_key, by_map, by_a_generator),
    *(in_a_loop, of_the_file, a_global, an_attribute, an_attribute_by_name, wrapped_helper),
    *(wrapped_by_an_object, matched, matched_whole, matched_rest, by_a_walrus),
    *(by_a_walrus_of_an_assertion, by_a_handler, by_an_item_of_a_loop, deleted),
]


def folded_and_real(threads: Callable[..., int]) -> tuple[list[int | None], int]:
    """Return the threads that are folded of a launch, and those of the launch itself."""

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        return Launch(block=(threads(self, member, problem), 1, 1))

    cls = type("Made", (Base,), {"launch": launch})
    sites = member_sites(cls(), KernelSource("simt", ""), "simt", dict(PARAMETERS))
    block = cls().launch("simt", dict(PARAMETERS), Problem(n=1024)).block
    return [site.threads for site in sites], block[0]


@pytest.mark.parametrize("threads", CASES, ids=lambda case: case.__name__)
def test_what_changes_is_never_folded_to_another_block(threads):
    folded, real = folded_and_real(threads)
    assert real > 64
    assert set(folded) <= {real, None}


def test_a_wrapper_is_followed_itself():
    assert folded_and_real(wrapped_helper) == ([512], 512)


def test_what_is_read_alone_is_known_beside_what_changes():
    def beside(self, member, problem):
        seen = []
        seen.append(problem.n)
        return member["threads"] * self.lanes // 2

    def read(self, member, problem):
        table = {**member, "rows": 2}
        sizes = [table["threads"], table.get("rows", 1)]
        return sizes[0] * max(sizes) // 2

    for each in (beside, read):
        assert folded_and_real(each) == ([2048], 2048)


@pytest.mark.parametrize(
    ("name", "threads"),
    [("module", 512), ("own", 256), ("evolved", 128), ("either", None), ("nothing", None)],
)
def test_a_launch_that_was_made_elsewhere_is_a_site_and_another_object_an_unknown_one(
    name, threads
):
    def module(self, dialect, member, problem):
        return FIXED

    def own(self, dialect, member, problem):
        return self.fixed

    def evolved(self, dialect, member, problem):
        return attrs.evolve(FIXED, block=(128, 1, 1))

    def either(self, dialect, member, problem):
        return "no launch"

    def nothing(self, dialect, member, problem):
        return None

    launch = {f.__name__: f for f in (module, own, evolved, either, nothing)}[name]
    cls = type("Made", (Base,), {"launch": launch})
    [site] = member_sites(cls(), KernelSource("simt", ""), "simt", {})
    assert site.threads == threads
    assert site.where.startswith("tests/unit/adaptor/test_folding_effects.py:")
    assert site.has_block
