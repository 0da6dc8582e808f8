"""What the kernel's driver says of a device in sysfs: caches, clock, limits, and who else uses it.

Nothing here raises. What cannot be read is None. Source of the files: Linux, the documentation of
amdgpu (hwmon, power_dpm_force_performance_level), and amdkfd's kfd_topology.c and kfd_process.c.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SYS: Final = Path("/sys")
_KFD: Final = "class/kfd/kfd"
_FIRST_NAMESPACE: Final = 0xEFFFFFFC
"""The machine's own namespace of process numbers. Source: Linux, PROC_PID_INIT_INO."""
_STAYS_S: Final = 0.1
"""How long a share is taken to stay: a look costs up to milliseconds and would see the same."""
_KIB: Final = 1024


class Sysfs:
    """One device as sysfs has it.

    Parameters
    ----------
    bus_id
        Where it is on the PCI bus, for instance ``0000:03:00.0``; numbers of devices differ
        between the runtime and the kernel.
    root
        Where sysfs is.
    """

    def __init__(self, bus_id: str, root: Path = _SYS) -> None:
        self._root = root
        self._device = root / "bus/pci/devices" / bus_id.lower()
        self._bus_id = bus_id.lower()
        self._share: float | None = None
        self._share_until_s = 0.0

    def last_level_cache_bytes(self) -> int | None:
        """Return the size of the cache that is nearest to the memory.

        Older kernels list one cache once for each group of compute units: the largest entry counts,
        and not their sum.
        """
        node = self._node()
        if node is None:
            return None
        caches = [_properties(path) for path in node.glob("caches/*/properties")]
        levels = [cache.get("level", 0) for cache in caches]
        last = max(levels, default=0)
        if last < 2:  # none, or only those of a compute unit
            return None
        sizes = [cache.get("size", 0) for cache in caches if cache.get("level") == last]
        return max(sizes) * _KIB or None

    def clock_mhz(self) -> int | None:
        """Return what the shaders' clock is at."""
        hertz = _number(self._sensor("freq1_input"))
        return None if hertz is None else round(hertz / 1e6)

    def power_mode(self) -> str | None:
        """Return the power limit that is set and the level that is forced, as one text."""
        microwatts = _number(self._sensor("power1_cap"))
        watts = None if microwatts is None else f"{round(microwatts / 1e6)} W"
        level = _text(self._device / "power_dpm_force_performance_level")
        return ", ".join(filter(None, (watts, level))) or None

    def foreign_share(self) -> float | None:
        """Return the share of the device's units that other processes hold now, 0 to 1.

        Only what computes is seen, not what draws. None where processes cannot be told apart, or
        where others have queues and the kernel does not say how many units they hold.
        """
        if time.monotonic() >= self._share_until_s:
            self._share = self._foreign_share()
            self._share_until_s = time.monotonic() + _STAYS_S
        return self._share

    def _foreign_share(self) -> float | None:
        node = self._node()
        gpu = None if node is None else _text(node / "gpu_id")
        if node is None or not gpu or not _sees_all():
            return None
        users = list(self._users(gpu))
        if not any(int(one.name) == os.getpid() for one in users):
            return None  # the kernel lists processes by numbers that are not ours
        others = [one for one in users if not _is_own(int(one.name))]
        held = [_number(one / f"stats_{gpu}" / "cu_occupancy") for one in others]
        units = _units(_properties(node / "properties"))
        if not others:
            return 0.0
        if None in held or not units:
            return None
        return min(sum(one for one in held if one is not None) / units, 1.0)

    def _users(self, gpu: str) -> Iterator[Path]:
        """Return the processes that have a queue on the device, and this one if it is known."""
        for process in self._entries(f"{_KFD}/proc"):
            if not process.name.isdecimal():
                continue
            queues = process.glob("queues/*/gpuid")
            if int(process.name) == os.getpid() or any(_text(one) == gpu for one in queues):
                yield process

    def _node(self) -> Path | None:
        """Return the device in the kernel's topology."""
        for node in self._entries(f"{_KFD}/topology/nodes"):
            found = _properties(node / "properties")
            place, domain = found.get("location_id", 0), found.get("domain", 0)
            # Bus, device and function, packed as PCI packs them.
            bus, device, function = place >> 8 & 0xFF, place >> 3 & 0x1F, place & 0x7
            if f"{domain:04x}:{bus:02x}:{device:02x}.{function}" == self._bus_id and place:
                return node
        return None

    def _sensor(self, name: str) -> Path:
        for path in self._device.glob(f"hwmon/hwmon*/{name}"):
            return path
        return self._device / name

    def _entries(self, path: str) -> list[Path]:
        try:
            return sorted((self._root / path).iterdir())
        except OSError:
            return []


def driver_version(root: Path = _SYS) -> str:
    """Return the kernel driver's version: its own where it has one, else the kernel's release."""
    own = _text(root / "module/amdgpu/version")
    return f"amdgpu {own}" if own else f"Linux {os.uname().release}"


def _units(node: dict[str, int]) -> int:
    """Return the compute units of a node, as the kernel counts them for what a process holds."""
    return node.get("simd_count", 0) // max(node.get("simd_per_cu", 1), 1)


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in (_text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


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
