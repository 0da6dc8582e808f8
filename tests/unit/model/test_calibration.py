"""Figures of a device: known names, numbers above 0, absent ones absent."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpu.errors import XpuConfigError
from xpu.model import FIGURES, Calibration, CalibrationKey

KEY = CalibrationKey("part, any-mp1", "driver 1", "compiler 2", "")


@given(st.dictionaries(st.sampled_from(list(FIGURES)), st.floats(1e-9, 1e18)))
def test_figures_stand_in_one_order_and_nothing_is_added(figures) -> None:
    kept = Calibration(KEY, figures).figures
    assert dict(kept) == figures
    assert list(kept) == [name for name in FIGURES if name in figures]


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1", None])
def test_what_is_no_figure_is_refused(value) -> None:
    with pytest.raises(XpuConfigError, match="'launch_ns' is a number above 0"):
        Calibration(KEY, {"launch_ns": value})


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(XpuConfigError, match="did you mean 'latency_ns'"):
        Calibration(KEY, {"latency": 1.0})


def test_a_share_is_of_a_measured_figure_alone() -> None:
    record = Calibration(KEY, {"float32_per_s": 8e12})
    assert record.share("float32_per_s", 2e12) == 0.25
    assert record.share("int8_dot_per_s", 2e12) is None
    assert record.share(None, 2e12) is None


def test_every_figure_ends_in_its_unit() -> None:
    for name in FIGURES:
        assert name.endswith(("_per_s", "_ns")) or name.startswith("bytes_"), name
