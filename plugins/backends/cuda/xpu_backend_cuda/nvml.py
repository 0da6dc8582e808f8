"""What NVIDIA's management library says of a device: who else uses it, its clock, its limits.

Nothing here raises. Where the library is missing, or cannot say, the answer is None.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

_T = TypeVar("_T")
_SM_CLOCK: Final = 1
# Source: nvmlClocksEventReasons of nvml.h. A slowdown by heat or by the power supply comes and
# goes with what ran before; the power cap is how a part runs that is busy.
_SLOWED: Final = 0x8 | 0x20 | 0x40 | 0x80
_POWER_CAPPED: Final = 0x4
_FIRST_NAMESPACE: Final = 0xEFFFFFFC
"""The machine's own namespace of process numbers. Source: Linux, PROC_PID_INIT_INO."""
_WINDOW_S: Final = 1.5
"""How far back use is looked at: the driver samples it every sixth of a second to a second."""
_STAYS_S: Final = 0.1
"""How long a share is taken to stay: a look costs up to milliseconds and would see the same."""


@attrs.frozen
class Clock:
    """One look at a device's clock: the multiprocessors' in MHz, and what holds it down."""

    sm_mhz: int
    is_slowed: bool
    is_power_capped: bool


class Nvml:
    """The library's view of one device.

    Parameters
    ----------
    bus_id
        Where it is on the PCI bus, as the driver writes it: numbers differ between the two.
    """

    def __init__(self, bus_id: str) -> None:
        self._bus_id = bus_id
        self._share: float | None = None
        self._share_until_s = 0.0

    def clock(self) -> Clock | None:
        """Return what the clock is at."""

        def look(nvml: Any, device: Any) -> Clock:
            # Older releases of the package have the older name.
            reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
            reasons = reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
            held = int(reasons(device))
            mhz = int(nvml.nvmlDeviceGetClockInfo(device, _SM_CLOCK))
            return Clock(mhz, bool(held & _SLOWED), bool(held & _POWER_CAPPED))

        return self._asked(look)

    def power_limit_w(self) -> int | None:
        """Return the power limit that is set, in watts."""
        milliwatts = self._asked(
            lambda nvml, device: nvml.nvmlDeviceGetPowerManagementLimit(device)
        )
        return None if milliwatts is None else round(milliwatts / 1000)

    def foreign_share(self) -> float | None:
        """Return the share of the device's time that other processes had of late, 0 to 1.

        A process that only holds memory takes no time. None where processes cannot be told
        apart: this one is not in the list when its numbers are another container's. None,
        too, where nobody else is seen from within a container, whose list has no others.
        """
        if time.monotonic() >= self._share_until_s:
            self._share = self._asked(_foreign_share)
            self._share_until_s = time.monotonic() + _STAYS_S
        return self._share

    def _asked(self, question: Callable[[Any, Any], _T]) -> _T | None:
        try:
            nvml = _library()
            device = nvml.nvmlDeviceGetHandleByPciBusId(self._bus_id)
            return question(nvml, device)
        except Exception:
            # Missing, too old, forbidden, or not able to say so of this part: absent either way.
            return None


def driver_version() -> str | None:
    """Return the driver's version, for instance ``580.159.04``."""
    try:
        version = _library().nvmlSystemGetDriverVersion()
    except Exception:
        return None
    return version.decode() if isinstance(version, bytes) else str(version)


@functools.cache
def _library() -> Any:
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    return nvml


def _foreign_share(nvml: Any, device: Any) -> float | None:
    there = {int(one.pid) for one in nvml.nvmlDeviceGetComputeRunningProcesses(device)}
    own = {pid for pid in there if _is_own(pid)}
    if os.getpid() not in own:
        return None
    if there == own:
        return 0.0 if _sees_all() else None
    since = int((time.time() - _WINDOW_S) * 1e6)
    shares: dict[int, list[int]] = {}
    try:
        for sample in nvml.nvmlDeviceGetProcessUtilization(device, since):
            if int(sample.timeStamp) >= since:
                shares.setdefault(int(sample.pid), []).append(int(sample.smUtil))
    except nvml.NVMLError_NotFound:
        return 0.0  # nobody ran anything of late
    others = [shares[pid] for pid in there - own if pid in shares]
    return min(sum(sum(each) / len(each) for each in others) / 100, 1.0)


def _sees_all() -> bool:
    """Whether process numbers are the machine's: in a namespace of its own others have none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_NAMESPACE
    except OSError:
        return False


def _is_own(pid: int) -> bool:
    """Whether a process is this one, or was started by it: a trial's worker is no stranger."""
    while pid > 0:
        if pid == os.getpid():
            return True
        try:
            # The name stands in parentheses and may hold anything: count from its end.
            columns = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        pid = int(columns[1])
    return False
