"""Batch sizes as the command line takes them."""

from __future__ import annotations

import pytest

from xpu import XpuConfigError
from xpu.probes import parse_batches


@pytest.mark.parametrize(
    ("text", "batches"),
    [
        ("1", (1,)),
        ("1,8,64", (1, 8, 64)),
        ("64,1,8,1", (64, 1, 8)),
        ("2-5", (2, 3, 4, 5)),
        (" 1 , 3-4,3 ", (1, 3, 4)),
        ("7-7", (7,)),
        ("1048576", (1 << 20,)),
    ],
)
def test_numbers_and_ranges_each_once_in_order(text, batches) -> None:
    assert parse_batches(text) == batches


@pytest.mark.parametrize(
    "text",
    ["", ",", "0", "0-3", "1,", "1,,2", "-1", "1-", "-", "5-1", "1-2-3", "a", "1.5", "1e3", "+1",
     "\u0661", "\u00b2", "1_0", "1048577", "1-1000000", "9" * 5000, "1-" + "9" * 5000],
)  # fmt: skip
def test_anything_else_is_refused_with_what_was_given(text) -> None:
    with pytest.raises(XpuConfigError, match="batches are") as error:
        parse_batches(text)
    assert repr(text) in str(error.value)
