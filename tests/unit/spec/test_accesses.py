from __future__ import annotations

import pytest

from xpu.errors import XpuBuildError
from xpu.model import BufferAccess
from xpu.spec import PRIVATE, UNUSED, Argument, Step, buffer_accesses, derive_modes


def modes(*steps: Step, count: int = 2):
    return derive_modes([(f"p{index}",) for index in range(count)], steps)


def test_each_use_gives_its_mode() -> None:
    steps = (Step(reads=("p0",)), Step(writes=("p1",)), Step(reads=("p2",)), Step(writes=("p2",)))
    assert modes(*steps, count=4) == ("read", "write", "update", UNUSED)


def test_an_address_is_followed_through_arithmetic_in_any_order() -> None:
    # The loop's pointer comes from itself, and is used before the text makes it.
    used, made = Step(writes=("c",)), Step(("b",), ("p0", "n"))
    loop = Step(("c",), ("b", "d")), Step(("d",), ("c",))
    assert modes(used, *loop, made) == ("write", UNUSED)


def test_an_address_that_is_lost_is_not_known() -> None:
    assert modes(Step(reads=("p0",)), Step(escapes=("p0",)), Step(reads=("p1",))) == (None, "read")
    assert modes(Step(("a",), ("p0",)), Step(escapes=("a",))) == (None, UNUSED)


def test_one_of_two_buffers_says_nothing_of_either_but_what_is_said_elsewhere() -> None:
    either = Step(("a",), ("p0", "p1"))
    assert modes(either, Step(writes=("a",))) == (None, None)
    sure = Step(writes=("p0",)), Step(writes=("p1",))
    assert modes(either, Step(writes=("a",)), *sure) == ("write", "write")


def test_what_is_kept_in_private_memory_comes_out_again() -> None:
    kept, fetched = Step((PRIVATE,), ("p0",)), Step(("a",), (PRIVATE,))
    assert modes(kept, fetched, Step(writes=("a",))) == ("write", UNUSED)


ARGUMENTS = (Argument("x", "float32", "read"), Argument("y", "float32", "update"))


def test_what_the_code_does_stands_before_what_is_declared() -> None:
    assert buffer_accesses(ARGUMENTS, ("read", "write")) == (
        BufferAccess("x", "read", is_derived=True),
        BufferAccess("y", "write", is_derived=True),
    )
    assert buffer_accesses(ARGUMENTS, (None,)) == (
        BufferAccess("x", "read"),
        BufferAccess("y", "update"),
    )


@pytest.mark.parametrize("mode", ["write", "update"])
def test_a_buffer_that_is_only_read_and_written_all_the_same_fails_by_name(mode) -> None:
    with pytest.raises(
        XpuBuildError, match=r"the design only reads 'x', and the code .* writes it"
    ):
        buffer_accesses(ARGUMENTS, (mode, "write"))
