"""The share of the usable processors that other processes hold, from the kernel's counters.

Busy time of the processors, less the time of this process and of its descendants. Time
that a hypervisor takes away (steal) is others' time.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from pathlib import Path
from typing import Final

import attrs

WINDOW_S: Final = 0.1
"""Least time that is looked at: the counters step by a hundredth of a second."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Columns of a `cpu` line in /proc/stat. Source: proc_stat(5); guest time is in user time.
_IDLE_COLUMNS: Final = frozenset({3, 4})
_COUNTED_COLUMNS: Final = 8


@attrs.frozen
class _Sample:
    at_s: float
    busy_s: float
    own_s: float


class ForeignLoad:
    """Looks at the counters, and remembers when it looked last."""

    def __init__(self, cpus: frozenset[int], *, proc: Path = Path("/proc")) -> None:
        self._cpus = cpus
        self._proc = proc
        self._lock = threading.Lock()
        self._last = self._sample()
        self._before: _Sample | None = None

    def share(self) -> float | None:
        """Return others' share since the last call, 0 to 1; None where /proc is missing.

        A call soon after another looks at the time since the one before that. The first
        call waits until there is a window to look at.
        """
        with self._lock:
            if self._last is None:
                return None
            if self._before is None:
                time.sleep(max(0.0, self._last.at_s + WINDOW_S - time.monotonic()))
            now = self._sample()
            if now is None:
                return None
            if self._before is None or now.at_s - self._last.at_s >= WINDOW_S:
                self._before, self._last = self._last, now
            return self._between(self._before, now)

    def _between(self, start: _Sample, end: _Sample) -> float:
        seconds = (end.at_s - start.at_s) * len(self._cpus)
        others = (end.busy_s - start.busy_s) - (end.own_s - start.own_s)
        return min(max(others / seconds, 0.0), 1.0) if seconds > 0 else 0.0

    def _sample(self) -> _Sample | None:
        busy = self._busy_s()
        if busy is None:
            return None
        return _Sample(time.monotonic(), busy, self._own_s())

    def _busy_s(self) -> float | None:
        try:
            lines = (self._proc / "stat").read_text().splitlines()
        except OSError:
            return None
        names = {f"cpu{number}" for number in self._cpus}
        rows = [line.split()[1:] for line in lines if line.partition(" ")[0] in names]
        if not rows:
            return None
        ticks = sum(
            int(value)
            for row in rows
            for column, value in enumerate(row[:_COUNTED_COLUMNS])
            if column not in _IDLE_COLUMNS
        )
        return ticks / _TICKS_PER_S

    def _own_s(self) -> float:
        usages = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return own + sum(self._spent_s(child) for child in self._descendants())

    def _descendants(self) -> list[str]:
        found: list[str] = []
        waiting = [str(os.getpid())]
        while waiting:
            tasks = self._proc / waiting.pop() / "task"
            for task in tasks.glob("*/children"):
                try:
                    waiting_here = task.read_text().split()
                except OSError:
                    continue
                found += waiting_here
                waiting += waiting_here
        return found

    def _spent_s(self, process: str) -> float:
        try:
            # The name stands in parentheses and may hold anything: count from its end.
            columns = (self._proc / process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        # utime, stime, cutime, cstime: columns 14 to 17. Source: proc_pid_stat(5).
        return sum(int(value) for value in columns[11:15]) / _TICKS_PER_S
