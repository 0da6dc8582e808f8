"""What a build costs beside its compilers, and what a second build of everything costs.

Run it with ``python benchmarks/build_time.py``; XPU must be installed, and the compilers of the
targets. Each round builds all members of a family with an empty cache, and then runs the same
compiler processes alone, as many at once: the ratio of the two is what XPU adds. ``--all`` builds
every family for every target (an hour on two cores where nothing is cached) and then once more, in
a fresh process whose whole time counts; with ``--targets`` and no target after it, that alone.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from compilers_alone import Recording, replay
from report import Report, arguments

import xpu
from xpu import Orchestrator
from xpu.adaptor import BatchAdaptor, BuildCache
from xpu.errors import XpuBuildError
from xpu.orchestrator import Target, settings_for, targets_of
from xpu.registry import default_registry

FAMILY: Final = "q4k_tile"
TARGETS: Final = ("cpu", "sm_90", "gfx1151")
EVERYTHING: Final = (
    *("cpu", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"),
    *("gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201"),
)
MOST_TIMES: Final = 1.3
MOST_SECONDS: Final = 1.0
_COLUMNS: Final = {
    "what": ("what", "{}"),
    "kernels": ("kernels", "{}"),
    "programs": ("programs", "{}"),
    "built_s": ("built in s", "{:.2f}"),
    "alone_s": ("compilers alone, s", "{:.2f}"),
    "ratio": ("ratio", "{:.3f}"),
    "limit": ("limit", "<= {}"),
    "verdict": ("", "{}"),
}


def build(family: str, target: Target, cache: Path) -> tuple[int, float]:
    """Build all members of a family into a cache; return how many kernels, and the seconds."""
    registry = default_registry()
    declared = settings_for(registry).family(family)
    members = declared.for_dialect(target.backend.dialect)
    adaptor = BatchAdaptor(target.backend, registry, BuildCache(cache))
    started = time.perf_counter()
    built = adaptor.build(declared, members, target.name)
    seconds = time.perf_counter() - started
    for each in built.values():
        if isinstance(each, XpuBuildError):
            raise each
    return len(list(cache.glob("*/*/code"))), seconds


def beside_its_compiler(report: Report, name: str, rounds: int) -> None:
    """Time a family for a target, and the compiler's programs alone, in turns."""
    [target] = targets_of(default_registry(), [name], None)
    at_once = min(16, len(os.sched_getaffinity(0)))
    ours: list[float] = []
    alone: list[float] = []
    report.load()
    with tempfile.TemporaryDirectory(prefix="xpu-build-time-") as directory:
        scratch = Path(directory)
        recording = Recording(scratch)
        with recording.watching():
            kernels, _ = build(FAMILY, target, scratch / "recorded")
        for turn in range(rounds):
            ours.append(build(FAMILY, target, scratch / f"cache{turn}")[1])
            alone.append(replay(recording.tasks, at_once, scratch))
    ratios = [mine / other for mine, other in zip(ours, alone, strict=True)]
    ratio = statistics.median(ratios)
    report.add(
        what=f"{FAMILY} for {target.name}",
        kernels=kernels,
        programs=sum(len(task.programs) for task in recording.tasks),
        built_s=statistics.median(ours),
        alone_s=statistics.median(alone),
        ratio=ratio,
        limit=MOST_TIMES,
        verdict="holds" if ratio <= MOST_TIMES else "FAILS",
        ratios=ratios,
        load=report.load(),
    )


def second_build(report: Report, rounds: int, cache: str | None) -> None:
    """Build everything, then time `xpu build` of everything in fresh processes."""
    words = [word for target in EVERYTHING for word in ("--target", target)]
    command = [sys.executable, "-c", "from xpu.cli import main; main()", "build", *words]
    environment = dict(os.environ) if cache is None else {**os.environ, "XPU_BUILD_CACHE": cache}

    def once() -> tuple[float, int]:
        started = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - this interpreter
            command, env=environment, capture_output=True, text=True, check=False
        )
        rows = sum(line.startswith(" ") for line in done.stdout.splitlines())
        return time.perf_counter() - started, rows

    first, rows = once()
    once()  # what the first one read is noted now
    before = os.times()
    times = [once()[0] for _ in range(rounds)]
    after = os.times()
    busy = (after[2] + after[3] - before[2] - before[3]) / rounds
    seconds = statistics.median(times)
    report.conditions["bytecode of XPU"] = (
        "kept"
        if has_bytecode()
        else "not kept: each start compiles all modules, which takes a quarter more"
    )
    report.add(
        what=f"everything again, {len(EVERYTHING)} targets",
        kernels=rows,
        built_s=seconds,
        limit=f"{MOST_SECONDS:g} s",
        verdict="holds" if seconds <= MOST_SECONDS else "FAILS",
        load=report.load(),
        times=times,
    )
    report.notes.append(
        f"everything: the first of these builds took {first:.0f} s; each later one at least "
        f"{min(times):.2f} s, and {busy:.2f} s of processor time, which others on the machine "
        "lengthen less than the time on the clock"
    )


def has_bytecode() -> bool:
    """Whether Python finds compiled modules of the XPU that is measured, as an install has them."""
    return Path(importlib.util.cache_from_source(str(xpu.__file__))).exists()


def main() -> None:
    """Measure and print."""
    parser = arguments("What a build costs beside its compilers.")
    parser.add_argument("--rounds", type=int, default=3, help="times that each is measured")
    parser.add_argument("--all", action="store_true", help="build everything, and once more")
    parser.add_argument("--cache", help="directory of what is built already, for --all")
    parser.add_argument("--targets", nargs="*", default=TARGETS, help="which, beside compilers")
    args = parser.parse_args()
    with Orchestrator(store=None, tuning="off", backend="cpu") as orchestrator:
        report = Report("What a build costs beside its compilers", _COLUMNS, orchestrator)
        registry = default_registry()
        for name in args.targets:
            [target] = targets_of(registry, [name], None)
            report.conditions[f"compiler for {name}"] = target.compiler.identity
        for name in args.targets:
            beside_its_compiler(report, name, args.rounds)
        if args.all:
            second_build(report, args.rounds, args.cache)
        report.finish(args)


if __name__ == "__main__":
    main()
