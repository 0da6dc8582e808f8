"""What this process may use of the machine: cores and memory, by affinity and cgroup.

Everything is read below a root directory, so that another machine's files can be read as
well as this one's. What cannot be read limits nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from xpu.errors import XpuConfigError

MOST_WORKERS: Final = 1024
VARIABLE: Final = "XPU_CPU_THREADS"


def text_or_absent(path: Path) -> str | None:
    """Return a small file's text, stripped; absent when it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ") or None
    except OSError:
        return None


def number_or_absent(text: str | None) -> int | None:
    """Return the whole number that a text is; absent for any other text."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def allowed_cpus() -> frozenset[int]:
    """Return the numbers of the logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cpu_list(text: str | None) -> frozenset[int]:
    """Read a list of processors as sysfs writes it, for instance ``0-3,8``."""
    numbers: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def physical_cores(root: Path, allowed: frozenset[int]) -> int:
    """Count the cores behind some logical processors; hyper-threads of one core are one.

    Where the machine does not say which processors share a core, each is one.
    """
    topology = root / "sys/devices/system/cpu"
    cores: set[frozenset[int]] = set()
    for cpu in allowed:
        siblings = text_or_absent(topology / f"cpu{cpu}/topology/thread_siblings_list")
        cores.add(cpu_list(siblings) or frozenset({cpu}))
    return len(cores)


def cpu_quota(root: Path) -> float | None:
    """Return the processors' worth of time that cgroups grant; absent when unlimited."""
    quotas = [*_quotas_v2(root), *_quotas_v1(root)]
    return min(quotas, default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """Return the least memory limit that cgroups set, in bytes; absent when unlimited."""
    texts = [
        *(text_or_absent(group / "memory.max") for group in _groups(root, "")),
        *(text_or_absent(group / "memory.limit_in_bytes") for group in _groups(root, "memory")),
    ]
    limits = (number_or_absent(text) for text in texts)
    return min((limit for limit in limits if limit is not None and limit > 0), default=None)


def worker_count(root: Path, allowed: frozenset[int], environment: Mapping[str, str]) -> int:
    """Return how many workers run a kernel: ``$XPU_CPU_THREADS``, else one for each core.

    A second worker on a core's other hyper-thread shares its arithmetic units, and waits
    at every barrier for whatever else the core does: one per core serves dense kernels
    better. A cgroup's quota is rounded down, because a worker over the quota is stopped
    for the rest of its period while the others wait.

    Raises
    ------
    XpuConfigError
        ``$XPU_CPU_THREADS`` is not a whole number from 1 to 1024.
    """
    asked = environment.get(VARIABLE, "").strip()
    if asked:
        if asked.isascii() and asked.isdigit() and 1 <= int(asked) <= MOST_WORKERS:
            return int(asked)
        raise XpuConfigError(
            f"${VARIABLE} is {asked!r}; allowed: a whole number from 1 to {MOST_WORKERS}; "
            "unset it to have one worker for each core"
        )
    cores = physical_cores(root, allowed)
    quota = cpu_quota(root)
    within = cores if quota is None else min(cores, int(quota))
    return max(1, min(within, MOST_WORKERS))


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Walk from this process's group up to its hierarchy's root; v2 is controller ``""``."""
    mount = root / "sys/fs/cgroup" / controller
    for line in (text_or_absent(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part not in {"", ".."}]
        for length in range(len(parts), -1, -1):
            yield mount.joinpath(*parts[:length])


def _quotas_v2(root: Path) -> Iterator[float]:
    for group in _groups(root, ""):
        quota, _, period = (text_or_absent(group / "cpu.max") or "").partition(" ")
        yield from _quota(quota, period)


def _quotas_v1(root: Path) -> Iterator[float]:
    for group in _groups(root, "cpu"):
        quota = text_or_absent(group / "cpu.cfs_quota_us")
        period = text_or_absent(group / "cpu.cfs_period_us")
        yield from _quota(quota, period)


def _quota(quota: str | None, period: str | None) -> Iterator[float]:
    granted, each = number_or_absent(quota), number_or_absent(period)
    if granted is not None and each is not None and granted > 0 and each > 0:
        yield granted / each
