"""What a member that calls a library is made of: every launch of it alone, and all together.

    python benchmarks/library_parts.py [--formats q4k,q6k] [--rows 64,512] [--json FILE]

Cold as in ``gpu_kernels.py``: copies of weights, activations, results and of what lies between
the launches, at least four times the last-level cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Final

import numpy as np
from kernel_limits import PLACE, limit_us
from members import Bench
from report import Report, arguments
from subjects import numbers, pairs
from turns import interleaved

from xpu import Orchestrator, Problem
from xpu.choice import Arm, Packer
from xpu.choice.job import loaded
from xpu.measure import rotation_count
from xpu.spec import DeviceArray

FORMATS: Final = ("q4k", "q6k")
ROWS: Final = (64, 128, 512, 2048)
COLUMNS: Final = {
    "format": ("format", "{}"),
    "m": ("m", "{}"),
    "part": ("part", "{}"),
    "us": ("µs", "{:.2f}"),
    "quartiles": ("quartiles", "{}"),
    "tb_s": ("TB/s written and read", "{:.2f}"),
    "tflop_s": ("TFLOP/s", "{:.1f}"),
    "limit": ("limit µs", "{:g}"),
}

Launch = Callable[[], None]


class Copies:
    """Copies of one product, each with all its launches packed, alone and together."""

    def __init__(self, bench: Bench, family: str, problem: Problem) -> None:
        assembled = bench.assembled(family, problem)
        self.problem, self._device = problem, bench.device
        self._arm = assembled.arm(next(iter(assembled.built)))
        constants = assembled.family.constants
        preparer = bench.trials.preparer(assembled.family)
        assert preparer is not None
        data = assembled.design.data(problem, constants, np.random.default_rng())
        touched = assembled.design.bytes_touched(problem, constants)
        count = rotation_count(bench.device.facts.last_level_cache_bytes, touched)
        self._stream = bench.trials.timer.tier.stream
        self.parts: dict[str, list[Launch]] = {}
        self._kept: list[Sequence[DeviceArray]] = []
        for _ in range(count):
            weights = preparer.prepare(bench.device.from_host(np.asarray(data["weights"])))
            x = bench.device.from_host(np.asarray(data["x"]))
            y = bench.device.allocate(4 * problem.m * problem.n)
            self._add(self._arm, [weights.array, x, y])

    def _add(self, arm: Arm, taken: list[DeviceArray]) -> None:
        device, stream = self._device, self._stream
        self._kept.append(tuple(taken))
        self.parts.setdefault("all", []).append(Packer(device, arm)(taken, stream))
        for staging in arm.staging:
            pair = (taken[staging.place], device.allocate(staging.nbytes))
            kernel = device.load(staging.code, staging.entry)
            launch = device.launcher(kernel, staging.launch, pair, staging.sizes, stream)
            self.parts.setdefault(f"staging {staging.place}", []).append(launch)
            taken[staging.place] = pair[1]
            launch()
        self._kept.append(tuple(taken))
        kernel = loaded(device, arm.code, arm.entry)
        launch = device.launcher(kernel, arm.launch, taken, arm.sizes, stream)
        self.parts.setdefault(arm.entry, []).append(launch)

    def bytes_of(self, part: str) -> int | None:
        """Return what a staging launch reads and writes, in bytes; None of the others."""
        for staging in self._arm.staging:
            if part == f"staging {staging.place}":
                return self._kept[0][staging.place].nbytes + staging.nbytes
        return None


def measure(args: argparse.Namespace, orchestrator: Orchestrator, bench: Bench) -> None:
    """Go through all points and report."""
    [(n, k)] = args.sizes
    report = Report(
        "Parts of a library's members", COLUMNS, orchestrator, **{"n x k": f"{n} x {k}"}
    )
    report.conditions["library"] = orchestrator.backend.library("gemm_nt_bf16")
    timer = bench.trials.timer
    for fmt in args.formats:
        for m in args.rows:
            copies = Copies(bench, f"{fmt}_library", Problem(m=m, n=n, k=k))
            bench.device.synchronize()
            for launches in copies.parts.values():
                timer.warm_up(launches)
            readers = [partial(timer.time_ns, launches) for launches in copies.parts.values()]
            times = interleaved(readers, args.seconds, 5) / 1e3
            for part, column in zip(copies.parts, times.T, strict=True):
                low, us, high = np.nanpercentile(column, (25, 50, 75))
                nbytes = copies.bytes_of(part)
                is_product = nbytes is None
                report.add(
                    format=fmt,
                    m=m,
                    part=part,
                    us=us,
                    quartiles=f"{low:.2f}-{high:.2f}",
                    tb_s=None if nbytes is None else nbytes / us / 1e6,
                    tflop_s=2 * m * n * k / us / 1e6 if is_product else None,
                    limit=limit_us(fmt, m, "cold") if part == "all" and (n, k) == PLACE else None,
                )
    report.finish(args)


def main() -> None:
    """Measure and print."""
    parser = arguments("The launches of members that call a library.")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=FORMATS)
    parser.add_argument("--rows", type=numbers, default=ROWS, metavar="M,…")
    parser.add_argument("--sizes", type=pairs, default=(PLACE,), metavar="NxK")
    parser.add_argument("--seconds", type=float, default=0.4, help="of turns of each point")
    args = parser.parse_args()
    with (
        Orchestrator(store=None, tuning="off", backend=args.backend) as orchestrator,
        closing(Bench(args.backend)) as bench,
    ):
        measure(args, orchestrator, bench)


if __name__ == "__main__":
    main()
