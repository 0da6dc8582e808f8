"""Constant expressions of declarations: evaluated for a member, or refused by name."""

from __future__ import annotations

import pytest

from xpu.errors import XpuConfigError
from xpu.expressions import constant


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("problem.m * 32", "is not constant.*'problem.m'"),
        ("device.wave_width", "is not constant.*'device.wave_width'"),
        ("kernel.registers", "is not constant.*'kernel.registers'"),
        ("launch.threads", "is not constant: it is absent"),
        ("member.tile // 0", "is not constant: it is absent"),
        ("member.rows", "is not constant.*'member.rows'"),
        ("member.tile / 3", "a whole number of 1 or more"),
        ("member.tile - 4", "a whole number of 1 or more"),
        ("member.tile > 2", "a whole number of 1 or more"),
        ("2 **", "not constant"),
    ],
)
def test_what_is_not_constant_is_refused_by_name(value, says):
    with pytest.raises(XpuConfigError, match=says):
        constant(value, {"tile": 4})


def test_constants_are_numbers_or_expressions_over_the_member():
    assert constant(7, {}) == 7
    assert constant("max(member.a, member.b) * 2", {"a": 3, "b": 5}) == 10
