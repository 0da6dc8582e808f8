"""Watches the device's clock while brackets are taken, without adding to what they cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from xpu_backend_hip.sysfs import Sysfs

_SHARE: Final = 10
"""One look may take one part in this many of the time: reading a sensor may take a millisecond, and
the clock does not change from one bracket to the next."""


class ClockWatch:
    """Looks at most once after a bracket."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs
        self._not_before_s = 0.0
        self._mhz: list[int] = []

    def look(self) -> None:
        """Look at the clock if it is time to; called once after each bracket."""
        start = time.perf_counter()
        if start < self._not_before_s:
            return
        mhz = self._sysfs.clock_mhz()
        end = time.perf_counter()
        self._not_before_s = end + _SHARE * (end - start)
        if mhz is not None:
            seen = (mhz, *self._mhz[1:])
            self._mhz = [mhz, min(seen), max(seen)]

    def describe(self) -> Mapping[str, Any]:
        """Return what was seen; no clock where the kernel's driver does not say it."""
        names = ("shader_clock_mhz", "least_shader_clock_mhz", "most_shader_clock_mhz")
        return dict(zip(names, self._mhz, strict=False))
