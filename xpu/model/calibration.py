"""What was measured of a device as a whole: named figures, and what they hold for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model._facts import frozen_mapping
from xpu.model.names import nearest

FIGURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "float32_per_s": "float32 operations a second",
        "half_matrix_per_s": "half-precision operations a second, in cooperative matrices",
        "int8_matrix_per_s": "8-bit operations a second, in cooperative matrices",
        "int8_dot_per_s": "8-bit operations a second, in dot products of four",
        "read_bytes_per_s": "bytes read a second, from memory that no cache holds",
        "copy_bytes_per_s": "bytes read and written a second by a copy",
        "read_loaded_bytes_per_s": "the same reading while every core of the host streams",
        "copy_loaded_bytes_per_s": "the same copy while every core of the host streams",
        "latency_ns": "from one read of memory to the next that needs its answer",
        "bytes_in_flight": "bytes that must be on their way for the full reading rate",
        "launch_ns": "host time of a launch, of many one after another",
        "clock_ns": "host time of a bracket of the clock, beyond its launch",
        "queue_ns": "from work on one queue to work on another that waits for it",
    }
)
"""Every figure by name, with its unit at the end of the name. A multiplication and an addition
are two operations."""


@attrs.frozen
class CalibrationKey:
    """What figures hold for; another driver, compiler or power mode has figures of its own.

    `device` is the part's name and geometry: equal parts share their figures.
    """

    device: str
    driver: str
    compiler: str
    power: str


def _figures(given: Mapping[str, Any]) -> Mapping[str, float]:
    for name, value in given.items():
        if name not in FIGURES:
            raise XpuConfigError(f"no figure is called {name!r}; {nearest(name, FIGURES)}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise XpuConfigError(f"figure {name!r} is a number above 0, not {value!r}")
    return frozen_mapping({name: float(given[name]) for name in FIGURES if name in given})


@attrs.frozen
class Calibration:
    """The figures of one device. One that was not measured is not there: absent, never 0.

    `measured` is the day, as ``2026-12-31``.

    Raises
    ------
    XpuConfigError
        A figure is not known, or not a number above 0.
    """

    key: CalibrationKey
    figures: Mapping[str, float] = attrs.field(converter=_figures)
    measured: str = ""

    def completed(self, earlier: Calibration | None) -> Calibration:
        """Return this record with the figures of an earlier one that it lacks.

        It is then as old as they are: the day is the earlier record's.
        """
        if earlier is None or earlier.figures.keys() <= self.figures.keys():
            return self
        figures = {**earlier.figures, **self.figures}
        return Calibration(self.key, figures, earlier.measured)

    def share(self, figure: str | None, rate_per_s: float) -> float | None:
        """Return a rate as a share of a measured one; None where that was not measured."""
        peak = None if figure is None else self.figures.get(figure)
        return None if peak is None else rate_per_s / peak
