"""Whether tuning many shapes leaks: the host's memory and the device's, over a thousand choices.

    python benchmarks/leaks.py [--shapes 1000] [--quick] [--json FILE] [--markdown FILE]

One orchestrator without a store chooses for shape after shape, none of them twice, in families of
all kinds and mostly with warm memory. After every fiftieth the process's own memory and what the
device has in use are looked at, the latter before and after the orchestrator has given back what it
keeps for later: only what then is still there has leaked. From shape to shape that is the answers,
which an orchestrator keeps; allocators fill up in the first third, which therefore does not count.
What a worker process leaked would end with it: it shows in the column before alone.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from report import Report, arguments
from subjects import families

from xpu import Orchestrator, Problem
from xpu.errors import XpuError

SHAPES: Final = 1000
LOOKS: Final = 20
COLD_EVERY: Final = 10
HOST_BYTES: Final = 32 << 10
"""Growth for each shape that is no leak: an answer with its members takes some 4 KiB, and pages
that an allocator cannot give back hold more."""
DEVICE_BYTES: Final = 32 << 10
"""The same on the device: 32 MiB in all, where each trial allocates several MiB."""
COLUMNS: Final = {
    "shapes": ("shapes tuned", "{}"),
    "seconds": ("s", "{:.0f}"),
    "host": ("process MiB", "{:.1f}"),
    "kept": ("device MiB, untrimmed", "{:.1f}"),
    "device": ("device MiB", "{:.1f}"),
    "objects": ("Python objects", "{}"),
    "failed": ("failed", "{}"),
}


def shapes(orchestrator: Orchestrator, count: int, rng: np.random.Generator) -> list[Any]:
    """Return pairs of family and problem, none of them twice, in random order."""
    dialect = orchestrator.backend.dialect
    found: dict[tuple[str, str], Problem] = {}
    while len(found) < count:
        m = int(rng.choice([1, 2, 5, 8, 16, 24, 40]))
        n, k = int(rng.integers(4, 65)) * 16, int(rng.integers(1, 9)) * 256
        fmt = str(rng.choice(["q4k", "q5k", "q6k"]))
        problem = Problem(m=m, n=n, k=k)
        for family in families(orchestrator.settings, dialect, fmt, m):
            found[family, problem.key] = problem
    pairs = [(family, problem) for (family, _), problem in found.items()]
    return [pairs[place] for place in rng.permutation(len(pairs))[:count]]


class Meter:
    """Memory of this process, and of the device where that can be had."""

    def __init__(self, backend: str) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._driver: Any = None
        if backend == "cuda":
            # On the context that the orchestrator has made; nothing of torch's is in this process.
            self._driver = importlib.import_module("cuda.bindings.driver")
            _, device = self._driver.cuDeviceGet(0)
            _, self._context = self._driver.cuDevicePrimaryCtxRetain(device)

    def host_mib(self) -> float:
        """Return what the process has in memory, less what its allocator keeps for later."""
        gc.collect()
        if self._trim is not None:
            self._trim(0)
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        return resident * resource.getpagesize() / 2**20

    def device_mib(self) -> float | None:
        """Return what is in use on the device, by whomever."""
        if self._driver is None:
            return None
        self._driver.cuCtxPushCurrent(self._context)
        code, free, total = self._driver.cuMemGetInfo()
        self._driver.cuCtxPopCurrent()
        return None if code else (int(total) - int(free)) / 2**20


def growth(shapes: Sequence[int], values: Sequence[float]) -> float:
    """Return how much a value grows with each shape, by the slope between all pairs of looks.

    The median of them: one look at a moment when much is in use moves it little.
    """
    slopes = [
        (values[later] - values[earlier]) / (shapes[later] - shapes[earlier])
        for later in range(len(shapes))
        for earlier in range(later)
    ]
    return float(np.median(slopes))


def tuned(
    orchestrator: Orchestrator, questions: Sequence[tuple[str, Problem]]
) -> Iterator[tuple[int, int]]:
    """Choose for each, and yield how many are done and how many of them failed."""
    failed = 0
    for done, (family, problem) in enumerate(questions, 1):
        memory = "warm" if done % COLD_EVERY else "cold"
        try:
            orchestrator.choose(family, problem, memory=memory)
        except XpuError:
            failed += 1
        yield done, failed


def verdicts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Say what grew after the first third of the shapes."""
    late = [row for row in rows if row["shapes"] > rows[-1]["shapes"] / 3]
    notes = []
    for name, limit in (("host", HOST_BYTES), ("device", DEVICE_BYTES)):
        if len(late) < 2 or any(row[name] is None for row in late):
            notes.append(f"{name}: not known")
            continue
        each = growth([row["shapes"] for row in late], [row[name] * 2**20 for row in late])
        notes.append(
            f"{name}: {each / 1024:+.1f} KiB a shape after the first third (allowed: "
            f"{limit / 1024:g}): {'met' if each <= limit else 'LEAKS'}"
        )
    return notes


def measure(args: argparse.Namespace, orchestrator: Orchestrator) -> None:
    """Tune and look, and report."""
    report = Report("Memory over many tunings", COLUMNS, orchestrator)
    questions = shapes(orchestrator, args.shapes, np.random.default_rng(args.seed))
    meter, began = Meter(orchestrator.backend.name), time.perf_counter()
    every = max(1, args.shapes // LOOKS)
    for done, failed in tuned(orchestrator, questions):
        elapsed = time.perf_counter() - began
        is_last = done == len(questions) or elapsed > args.seconds
        if done % every == 0 or is_last:
            gc.collect()  # arrays in cycles are nobody's
            kept = meter.device_mib()
            orchestrator.trim()
            report.add(
                shapes=done,
                seconds=elapsed,
                host=meter.host_mib(),
                kept=kept,
                device=meter.device_mib(),
                objects=len(gc.get_objects()),
                failed=failed,
            )
        if is_last:
            break
    if report.rows[-1]["shapes"] < args.shapes:
        report.notes.append(f"only {report.rows[-1]['shapes']} of {args.shapes} shapes fitted")
    report.notes += verdicts(report.rows)
    report.finish(args)


def main() -> None:
    """Measure and print."""
    parser = arguments("Memory over many tunings.")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--seconds", type=float, default=440.0, help="after which it stops")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="100 shapes")
    args = parser.parse_args()
    if args.quick:
        args.shapes = 100
    with Orchestrator(store=None, tuning="off", backend=args.backend) as orchestrator:
        measure(args, orchestrator)


if __name__ == "__main__":
    main()
