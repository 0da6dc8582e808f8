"""Every member over the rows of x, cold and warm: times, shares of the bandwidth, limits.

    python benchmarks/gpu_kernels.py [--quick] [--formats q4k,q6k] [--json FILE] [--markdown FILE]

At each point the members of a family take turns on the device's clock, graphs replayed, after
each was compared with the reference. A row is the best member of a family; all of them are in
the JSON. Cold goes round copies of at least four times the last-level cache, warm reuses one
buffer, as llama.cpp's own test does.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
from kernel_limits import BYTES_PER_S, PEER_US, PLACE, limit_us, verdicts
from kernel_limits import ROWS as EVERY_ROW
from members import Bench, medians_us
from report import Report, arguments
from subjects import SERVING, families, numbers, pairs

from xpu import Orchestrator, Problem
from xpu.store import Calibrations

ROWS: Final = (1, 2, 4, 8, 16, 64, 128, 512, 2048)
TILES_FROM: Final = 2
LIBRARY_FROM: Final = 64
"""From which m on the families `linear_q*k` ask them."""
FORMATS: Final = ("q4k", "q5k", "q6k")
MEMORY: Final = ("cold", "warm")
COLUMNS: Final = {
    "format": ("format", "{}"),
    "m": ("m", "{}"),
    "memory": ("memory", "{}"),
    "family": ("family", "{}"),
    "member": ("best member", "{}"),
    "us": ("µs", "{:.2f}"),
    "quartiles": ("quartiles", "{}"),
    "rounds": ("rounds", "{}"),
    "tb_s": ("TB/s", "{:.2f}"),
    "share": ("of bandwidth", "{:.0%}"),
    "tflop_s": ("TFLOP/s", "{:.1f}"),
    "limit": ("limit µs", "{:g}"),
    "peer_us": ("llama.cpp µs", "{:g}"),
}


def bandwidth(orchestrator: Orchestrator) -> tuple[float, str]:
    """Return what the device's memory gives, bytes a second, and who says so."""
    found = Calibrations().find(orchestrator.calibrator.key)
    measured = found and found.record.figures.get("read_bytes_per_s")
    if found and measured:
        return measured, f"{measured / 1e12:.2f} TB/s, measured: {found.path.name}"
    return BYTES_PER_S, f"{BYTES_PER_S / 1e12:.1f} TB/s, no calibration of this device is kept"


class Course:
    """Goes through points on one device."""

    def __init__(self, bench: Bench, report: Report, bytes_per_s: float, seconds: float) -> None:
        self._bench, self._report = bench, report
        self._bytes_per_s, self._seconds = bytes_per_s, seconds

    def add(self, fmt: str, family: str, problem: Problem, modes: Sequence[str]) -> None:
        """Check the members once, read them in each mode, and add a row for each."""
        right: list[str] | None = None
        for memory in modes:
            members = self._bench.members(family, problem, memory)
            if right is None:
                members.check()
                right = members.names
            members.names = list(right)
            times = members.read(self._seconds)
            self._add(fmt, family, problem, memory, members.names, times)
            self._report.notes += [
                f"WARNING: {family} {problem.key} {name}: {why}"
                for name, why in members.faults.items()
            ]

    def _add(
        self,
        fmt: str,
        family: str,
        problem: Problem,
        memory: str,
        names: Sequence[str],
        times: Any,
    ) -> None:
        medians = medians_us(times)
        row: dict[str, Any] = {
            "format": fmt,
            "m": problem.m,
            "memory": memory,
            "family": family,
            "us": None,
            "members": dict(zip(names, medians, strict=True)),
        }
        if names and np.isfinite(medians).any():
            place = int(np.nanargmin(medians))
            us, column = medians[place], times[:, place]
            low, high = np.nanpercentile(column, (25, 75))
            declared = self._bench.settings.family(family)
            design = self._bench.registry.design_of(declared)
            rate = design.bytes_touched(problem, declared.constants) / us * 1e6
            row |= {
                "member": names[place],
                "us": us,
                "quartiles": f"{low:.2f}-{high:.2f}",
                "rounds": int(np.isfinite(column).sum()),
                "tb_s": rate / 1e12,
                "share": rate / self._bytes_per_s,
                "tflop_s": design.operations(problem) / us / 1e6,
            }
        if (problem.n, problem.k) == PLACE:
            row["limit"] = limit_us(fmt, problem.m, memory)
            row["peer_us"] = PEER_US.get((fmt, problem.m)) if memory == "warm" else None
        self._report.add(**row)


def measure(args: argparse.Namespace, orchestrator: Orchestrator, bench: Bench) -> None:
    """Go through all points and report."""
    bytes_per_s, said = bandwidth(orchestrator)
    report = Report(
        "Kernels of a device",
        COLUMNS,
        orchestrator,
        bandwidth=said,
        **{
            "n x k": "{} x {}".format(*args.sizes[0]),
            "families": f"{SERVING.format(TILES_FROM)}, q*k_library from {LIBRARY_FROM} on",
        },
    )
    course = Course(bench, report, bytes_per_s, args.seconds)
    rows = [*args.rows, *(m for m in args.every_row if m not in args.rows)]
    [(n, k)] = args.sizes
    for fmt in args.formats:
        for m in sorted(rows):
            where = (bench.settings, bench.backend.dialect, fmt)
            for family in families(*where, m, tiles_from=TILES_FROM, library_from=LIBRARY_FROM):
                # Row counts between the usual ones are looked at cold alone.
                modes = args.memory if m in args.rows else args.memory[:1]
                course.add(fmt, family, Problem(m=m, n=n, k=k), modes)
    clock = bench.trials.timer.tier
    report.conditions["clock"] = f"{clock.name}: {dict(clock.describe())}"
    if args.sizes == (PLACE,):
        report.notes += verdicts(report.rows)
    report.finish(args)


def main() -> None:
    """Measure and print."""
    parser = arguments("The kernels' members over the rows of x.")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=FORMATS)
    parser.add_argument("--rows", type=numbers, default=ROWS, metavar="M,…")
    parser.add_argument("--every-row", type=numbers, default=tuple(EVERY_ROW), metavar="M,…")
    parser.add_argument("--memory", type=lambda text: text.split(","), default=MEMORY)
    parser.add_argument("--sizes", type=pairs, default=(PLACE,), metavar="NxK")
    parser.add_argument("--seconds", type=float, default=0.4, help="of turns of each family")
    parser.add_argument("--quick", action="store_true", help="m = 1, 8, 512 of q4_K, 0.1 s each")
    args = parser.parse_args()
    if args.quick:
        quick = {"formats": ("q4k",), "rows": (1, 8, 512), "every_row": (), "seconds": 0.1}
        vars(args).update(quick)
    with (
        Orchestrator(store=None, tuning="off", backend=args.backend) as orchestrator,
        closing(Bench(args.backend)) as bench,
    ):
        measure(args, orchestrator, bench)


if __name__ == "__main__":
    main()
