"""Watches the device's clock while brackets are taken, without adding to what they cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from xpu_backend_cuda.nvml import Clock, Nvml

_SHARE: Final = 10
"""One look may take one part in this many of the time: on some parts it costs a millisecond,
and the clock does not change from one bracket to the next."""


class ClockWatch:
    """Looks at most once after a bracket; a bracket without a look is judged by the last one."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._last: Clock | None = None
        self._not_before_s = 0.0
        self._least_mhz = self._most_mhz = 0
        self.slowed = 0
        self.power_capped = 0

    def is_slowed(self) -> bool:
        """Whether heat or the power supply holds the clock down; asked once after each bracket."""
        start = time.perf_counter()
        if start >= self._not_before_s:
            clock = self._last = self._nvml.clock()
            end = time.perf_counter()
            self._not_before_s = end + _SHARE * (end - start)
            if clock is not None:
                self._least_mhz = min(self._least_mhz or clock.sm_mhz, clock.sm_mhz)
                self._most_mhz = max(self._most_mhz, clock.sm_mhz)
        if self._last is None:
            return False
        self.slowed += self._last.is_slowed
        self.power_capped += self._last.is_power_capped
        return self._last.is_slowed

    def describe(self) -> Mapping[str, Any]:
        """Return what was seen; no clock where the library cannot say."""
        told: dict[str, Any] = {"slowed_brackets": self.slowed}
        told["power_capped_brackets"] = self.power_capped
        if self._last is not None:
            told["sm_clock_mhz"] = self._last.sm_mhz
            told["least_sm_clock_mhz"] = self._least_mhz
            told["most_sm_clock_mhz"] = self._most_mhz
        return told
