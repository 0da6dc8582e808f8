"""What XPU itself costs: calls, an import, configuration, a recall, a filter; with their limits.

    python benchmarks/call_overhead.py [--markdown FILE] [--json FILE]

A call's overhead is its time less that of the bare compiled function on the same problem, the
smallest that there is. Bare is the launch that a call ends in, with its packed arguments, called
from a loop in C: with one worker that is the kernel and little else, with more of them it is the
kernel and the waking of, and waiting for, the other workers, which no caller can do without.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import store_recall
from filter_speed import CANDIDATES, candidates, filtering, milliseconds
from report import Report, arguments

from xpu import Orchestrator, Problem
from xpu.building.startup import settings_for
from xpu.errors import XpuBuildError
from xpu.registry import default_registry
from xpu.spec import Device, KernelUnit
from xpu_backend_cpu.backend import CpuBackend
from xpu_backend_cpu.device import CpuDevice
from xpu_backend_cpu.machine import this_machine
from xpu_backend_cpu.pool import Pool, load_pool
from xpu_backend_cpu.toolchain import find_toolchain

FAMILY: Final = "q4k_matvec"
SMALLEST: Final = Problem(m=1, n=1, k=256)
CALLS: Final = 2000  # in a round
ROUNDS: Final = 41
IMPORTS: Final = 11
COLUMNS: Final = {
    "what": ("what", "{}"),
    "value": ("median", "{:.3f}"),
    "quartiles": ("quartiles", "{}"),
    "unit": ("unit", "{}"),
    "limit": ("limit", "{}"),
    "held": ("", "{}"),
}
LOOP: Final = r"""
#include "xpu_c.h"

XPU_EXPORT void call_often(int (*launch)(const void *), const void *plan, int64_t count) {
    for (int64_t i = 0; i < count; i++) launch(plan);
}
"""


class PlanKeeper(CpuBackend):
    """The backend with a launch that keeps the packed plan instead of running it."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.plan: Any = None

    def open(self, index: int = 0) -> Device:
        """Open the machine."""
        real = load_pool(find_toolchain())
        pool = Pool(self._keep, real.threads, real.nothing)
        return CpuDevice(this_machine(self._workers), pool)

    def _keep(self, plan: object) -> int:
        self.plan = plan
        return 0


def orchestrator_on(backend: CpuBackend) -> Orchestrator:
    """Return an orchestrator that has this backend for its only one."""
    registry = attrs.evolve(default_registry(), backends={"cpu": backend})
    return Orchestrator(store=None, tuning="off", registry=registry)


@contextmanager
def loop_in_c(backend: CpuBackend) -> Iterator[Callable[[Any], Callable[[int], None]]]:
    """Give what turns a plan into a function that launches it so many times from C."""
    compiler, launch = backend.compiler(), load_pool(find_toolchain()).launch
    unit = KernelUnit("call_often", "call_often", LOOP, {}, {})
    [code] = compiler.compile([unit], compiler.native_target(), deadline_s=60.0)
    if isinstance(code, XpuBuildError):
        raise code
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "call_often.so"
        path.write_bytes(code.code)
        loop = ctypes.CDLL(str(path)).call_often
        yield lambda plan: lambda count: loop(launch, plan, ctypes.c_int64(count))


def per_call_ns(run: Callable[[int], None]) -> float:
    """Return nanoseconds a call of something that is told how often."""
    started = time.perf_counter_ns()
    run(CALLS)
    return (time.perf_counter_ns() - started) / CALLS


def repeated(
    call: Callable[..., object], weights: Any, x: Any, *, out: Any
) -> Callable[[int], None]:
    """Return a loop in Python, its own cost included."""

    def run(count: int) -> None:
        for _ in range(count):
            call(weights, x, out=out)

    return run


def call_overheads(report: Report, workers: int) -> None:
    """Measure calls with a number of workers, in turns with the bare function."""
    plain, keeper = CpuBackend(workers), PlanKeeper(workers)
    with (
        orchestrator_on(plain) as orchestrator,
        orchestrator_on(keeper) as keeping,
        loop_in_c(plain) as bare_of,
    ):
        family = orchestrator.settings.family(FAMILY)
        design = orchestrator.registry.design_of(family)
        m, n, k = SMALLEST.sizes.values()
        data = design.data(SMALLEST, family.constants, np.random.default_rng(0))
        weights, x = orchestrator.prepare(FAMILY, data["weights"]), data["x"]
        y = np.empty((m, n), np.float32)
        keeping.bind(FAMILY, m=m, n=n, k=k)(weights, x, out=y)
        kernel = orchestrator.bind(FAMILY, m=m, n=n, k=k)
        calls = {
            "a bound call": repeated(kernel, weights, x, out=y),
            "an op's call": repeated(orchestrator.op(FAMILY, n=n, k=k), weights, x, out=y),
        }
        bare = bare_of(keeper.plan)
        times: dict[str, list[float]] = {name: [] for name in ("bare", *calls)}
        for _ in range(ROUNDS):
            for name, run in {"bare": bare, **calls}.items():
                times[name].append(per_call_ns(run))
        label = f"{workers} worker{'s' if workers > 1 else ''}"
        add(report, f"bare launch in C, {label}", times["bare"], "µs", scale=1e-3)
        for name in calls:
            over = [a - b for a, b in zip(times[name], times["bare"], strict=True)]
            limit = 2.0 if name == "a bound call" else None
            add(report, f"added by {name}, {label}", over, "µs", limit, scale=1e-3)
        fresh = [np.empty_like(y) for _ in range(400)]
        add(
            report,
            f"a first call with new arrays, {label}",
            first_calls_ns(kernel, weights, x, fresh),
            "µs",
            scale=1e-3,
        )


def first_calls_ns(kernel: Any, weights: Any, x: Any, outs: list[Any]) -> list[float]:
    """Return nanoseconds of a call with each result array, none of which was seen before."""
    times = []
    for out in outs:
        started = time.perf_counter_ns()
        kernel(weights, x, out=out)
        times.append(float(time.perf_counter_ns() - started))
    return times


def import_s() -> list[float]:
    """Return seconds of ``import xpu`` in fresh processes; a first one fills the disk cache."""
    code = "import time; t = time.perf_counter(); import xpu; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    # S603: the command is this program's own
    outputs = [
        subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - ours
        for _ in range(IMPORTS + 1)
    ]
    return [float(output) for output in outputs[1:]]


def add(
    report: Report,
    what: str,
    readings: list[float],
    unit: str,
    limit: float | None = None,
    *,
    scale: float = 1.0,
) -> None:
    """Add a row: the median of readings against a limit, both in `unit`."""
    scaled = [reading * scale for reading in readings]
    median = statistics.median(scaled)
    low, high = (
        (statistics.quantiles(scaled, n=4)[at] for at in (0, 2))
        if len(scaled) > 1
        else (
            median,
            median,
        )
    )
    report.add(
        what=what,
        value=median,
        quartiles=f"{low:.3f}-{high:.3f}",
        unit=unit,
        limit=None if limit is None else f"<= {limit:g}",
        held=None if limit is None else ("holds" if median <= limit else "BROKEN"),
    )


def main() -> None:
    """Measure and print."""
    args = arguments("What XPU itself costs.").parse_args()
    with Orchestrator(store=None, tuning="off", backend="cpu") as orchestrator:
        report = Report("What XPU itself costs", COLUMNS, orchestrator)
        every = orchestrator.facts.multiprocessors or 1
        for workers in sorted({1, every}):
            call_overheads(report, workers)
        add(report, "import xpu, a fresh process", import_s(), "s", 0.15)
        reading = milliseconds(lambda: settings_for(default_registry()))
        add(report, "read and check the shipped configuration", reading, "ms", 15.0)
        recall = store_recall.measure()["recall, loaded"]
        add(report, "recall of a key once loaded, least", [recall], "µs", 1.0, scale=1e-3)
        filtered = milliseconds(filtering(candidates(CANDIDATES)))
        add(report, f"filter {CANDIDATES} candidates, all rules", filtered, "ms", 20.0)
        report.finish(args)


if __name__ == "__main__":
    main()
