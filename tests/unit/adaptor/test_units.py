from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpu.adaptor.units import (
    macros,
    member_unit,
    preparation_unit,
    staging_unit,
    symbol,
    unit_key,
)
from xpu.errors import XpuBuildError
from xpu.model import Declarations, Family, Member
from xpu.spec import Argument, Design, KernelSource, Launch, Preparation

SOURCE = KernelSource("c", "text", {"a.h": "a", "b.h": "b"})


class Two(Design):
    name = "two"
    parameters = ("tile",)
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return SOURCE

    def shapes(self, problem, constants):
        return {"x": (problem.n,), "y": (problem.n,)}

    def data(self, problem, constants, rng):
        return {}

    def verify(self, problem, constants, inputs, outputs, rng):
        return ""


class Reads(Preparation):
    argument = "x"

    def __init__(self, constants):
        self.constants = constants

    def source(self, dialect):
        return SOURCE

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 1


class Compiler:
    identity = "cc 1"

    def __init__(self, fingerprint="-O3"):
        self._fingerprint = fingerprint

    def fingerprint(self, target):
        return f"{self._fingerprint} {target}"


FAMILY = Family("f", "two", ("n",), (Member("a", {"tile": 4}),), constants={"format": "q4_k"})


@given(st.text(min_size=1), st.text())
def test_a_symbol_is_a_c_identifier(one, two):
    made = symbol("xpu", one, two)
    assert made.isascii()
    assert made.isidentifier()


def test_values_become_macros():
    assert macros({"tile_m": 8, "format": "q4_k", "no": 0}) == {
        "XPU_TILE_M": "8",
        "XPU_FORMAT_Q4_K": "1",
        "XPU_NO": "0",
    }


def test_a_members_parameters_and_the_familys_constants_are_defined():
    unit = member_unit(FAMILY, Two(), SOURCE, FAMILY.members[0])
    assert unit.kernel == "f.a"
    assert unit.defines == {"XPU_FORMAT_Q4_K": "1", "XPU_TILE": "4"}
    assert unit.arguments == Two.arguments


def test_families_of_one_format_share_the_code_of_their_preparation():
    other = attrs.evolve(FAMILY, name="g", design="three")
    assert unit_key(preparation_unit(FAMILY, SOURCE), Compiler(), "t") == unit_key(
        preparation_unit(other, SOURCE), Compiler(), "t"
    )
    third = attrs.evolve(FAMILY, constants={"format": "q6_k"})
    assert unit_key(preparation_unit(FAMILY, SOURCE), Compiler(), "t") != unit_key(
        preparation_unit(third, SOURCE), Compiler(), "t"
    )


def test_constants_that_a_preparation_does_not_read_leave_its_code_alone():
    halves = attrs.evolve(FAMILY, constants={"format": "q4_k", "x": "float16"})
    [member] = FAMILY.members
    of_format, of_both = Reads(("format",)), Reads(("format", "x"))
    for made in (
        lambda family: preparation_unit(family, SOURCE, of_format),
        lambda family: staging_unit(family, member, of_format, "c"),
    ):
        assert made(halves).defines == made(FAMILY).defines == {"XPU_FORMAT_Q4_K": "1"}
    assert "XPU_X_FLOAT16" in preparation_unit(halves, SOURCE).defines
    assert "XPU_X_FLOAT16" in staging_unit(halves, member, of_both, "c").defines


UNIT = member_unit(FAMILY, Two(), SOURCE, FAMILY.members[0])


@pytest.mark.parametrize(
    "change",
    [
        {"entry": "other"},
        {"text": "other"},
        {"includes": {"a.h": "a", "b.h": "c"}},
        {"includes": {"a.h": "a", "c.h": "b"}},
        {"includes": {"a.h": "a\0b.h\0b"}},
        {"defines": {"XPU_FORMAT_Q4_K": "1", "XPU_TILE": "5"}},
        {"defines": {"XPU_FORMAT_Q4_K": "1"}},
        {"arguments": ()},
        {"arguments": (attrs.evolve(Two.arguments[0], dtype="int64"), *Two.arguments[1:])},
        {"arguments": (attrs.evolve(Two.arguments[0], access="update"), *Two.arguments[1:])},
    ],
)
def test_whatever_the_code_comes_from_is_in_the_key(change):
    assert unit_key(attrs.evolve(UNIT, **change), Compiler(), "t") != unit_key(
        UNIT, Compiler(), "t"
    )


def test_compiler_flags_and_target_are_in_the_key_and_order_is_not():
    key = unit_key(UNIT, Compiler(), "t")
    assert key != unit_key(UNIT, Compiler("-O2"), "t")
    assert key != unit_key(UNIT, Compiler(), "u")
    again = attrs.evolve(
        UNIT,
        includes=dict(reversed(UNIT.includes.items())),
        defines=dict(reversed(UNIT.defines.items())),
        kernel="another name",
    )
    assert key == unit_key(again, Compiler(), "t")


class Waved(Two):
    problem = ("n",)
    declared = Declarations(max_threads=256, fast_math=True)

    def launch(self, dialect, member, problem):
        return Launch(block=(problem.n, 1, 1))


WIDTH_32 = KernelSource("simt", "int first = xpu::wave() * 32;")


def test_a_units_block_and_arithmetic_come_from_its_declarations():
    unit = member_unit(FAMILY, Waved(), SOURCE, FAMILY.members[0], 32)
    assert (unit.max_threads, unit.fast_math) == (256, True)
    assert [site.threads for site in unit.launch_sites] == [None, 256]
    own = attrs.evolve(FAMILY, declared=Declarations(max_waves="member.tile", fast_math=False))
    unit = member_unit(own, Waved(), SOURCE, FAMILY.members[0], 32)
    assert (unit.max_threads, unit.fast_math) == (128, False)
    keys = {
        unit_key(attrs.evolve(UNIT, **changed), Compiler(), "t")
        for changed in ({}, {"max_threads": 64}, {"fast_math": True})
    }
    assert len(keys) == 3


def test_the_pinned_block_is_a_macro_and_without_blocks_a_members_threads_are():
    family = attrs.evolve(FAMILY, members=(Member("a", {"threads": 64}),))
    unit = member_unit(family, Two(), SOURCE, family.members[0], 32)
    assert (unit.max_threads, unit.defines["XPU_THREADS"]) == (64, "64")
    assert [site.where for site in unit.launch_sites][1] == "families.f.members.a.threads"
    unit = member_unit(family, Two(), SOURCE, family.members[0])
    assert (unit.max_threads, unit.defines["XPU_THREADS"]) == (None, "64")


def test_a_members_threads_are_no_bound_where_the_block_depends_on_the_problem():
    family = attrs.evolve(FAMILY, members=(Member("a", {"threads": 64}),))
    open_ = attrs.evolve(family, declared=Declarations(max_threads=512))
    unit = member_unit(open_, Waved(), SOURCE, family.members[0], 32)
    assert (unit.max_threads, unit.defines["XPU_THREADS"]) == (512, "512")
    design = Waved()
    design.declared = Declarations()
    unit = member_unit(family, design, SOURCE, family.members[0], 32)
    assert (unit.max_threads, "XPU_THREADS" in unit.defines) == (None, False)


def test_a_source_for_any_width_with_a_literal_lane_count_is_refused():
    member = FAMILY.members[0]
    with pytest.raises(XpuBuildError, match=r"f\.a: .* the source, line 1: .*xpu::wave\(\) \* 32"):
        member_unit(FAMILY, Two(), WIDTH_32, member, 64)
    own = attrs.evolve(FAMILY, declared=Declarations(wave=32))
    assert member_unit(own, Two(), WIDTH_32, member, 32).text == WIDTH_32.text
    # Where nobody knows of waves it is any text.
    assert member_unit(FAMILY, Two(), WIDTH_32, member).text == WIDTH_32.text
    with pytest.raises(XpuBuildError, match=r"f\.a: .*waves of 32 lanes.* have 64"):
        member_unit(own, Two(), WIDTH_32, member, 64)
