"""XPU beside ggml and numpy on the host: q4_K and q6_K weights (4096, 4096), in one process.

    python benchmarks/cpu_peer.py --ggml-lib DIR [--markdown FILE] [--json FILE]

Each point tunes XPU's families first, then lets both sides take turns: ours is the whole Python
call of a bound kernel with prepared weights, theirs one graph computation through ctypes in
whichever buffer type makes ours look worst. A ratio is theirs over ours within a round: above 1
XPU is faster. Both results are compared with the float64 product of the dequantised weights.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from contextlib import closing
from typing import Any, Final

from ggml_peer import Ggml
from match import WIDE, Match, Point
from report import BUSY, Report, arguments

from xpu import Orchestrator
from xpu.registry import default_registry

N: Final = 4096
K: Final = 4096
FAMILIES: Final = {"q4_k": ("q4k_matvec", "q4k_tile"), "q6_k": ("q6k_matvec", "q6k_tile")}
BATCHES: Final = ((1, "warm"), (4, "warm"), (16, "warm"), (512, "warm"), (1, "cold"))
NOT_SLOWER: Final = 0.97
FASTER: Final = 1.2
FASTER_SHARE: Final = 2 / 3
SPOILERS: Final = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # may be set, and slow numpy down
COLUMNS: Final = {
    "format": ("format", "{}"),
    "m": ("m", "{}"),
    "memory": ("memory", "{}"),
    "member": ("XPU runs", "{}"),
    "ours_us": ("XPU µs", "{:.1f}"),
    "peer": ("ggml runs", "{}"),
    "theirs_us": ("ggml µs", "{:.1f}"),
    "ratio": ("ggml/XPU", "{:.2f}"),
    "quartiles": ("quartiles", "{}"),
    "rounds": ("rounds", "{}"),
    "numpy_us": ("numpy f32 µs", "{:.0f}"),
    "error": ("XPU rms error", "{:.4f}"),
    "peer_error": ("ggml rms error", "{:.4f}"),
    "memory_gb_s": ("memory GB/s", "{:.1f}"),
    "read_gb_s": ("XPU GB/s", "{:.1f}"),
    "read_share": ("XPU share", "{:.0%}"),
    "peer_read_share": ("ggml share", "{:.0%}"),
    "load": ("others", "{:.0%}"),
}


def verdict(rows: list[dict[str, Any]]) -> str:
    """Say at how many points XPU is not slower, and at how many it is faster."""
    ratios = [row["ratio"] for row in rows]
    holding = sum(ratio >= NOT_SLOWER for ratio in ratios)
    faster = sum(ratio >= FASTER for ratio in ratios)
    is_met = holding == len(rows) and faster >= FASTER_SHARE * len(rows)
    doubt = ", on a busy machine" if any(row["load"] >= BUSY for row in rows) else ""
    return (
        f"verdict: {holding} of {len(rows)} points at {NOT_SLOWER} x ggml or better, {faster} at "
        f"{FASTER} x or better (wanted: all, and two thirds): "
        f"{'met' if is_met else 'NOT met'}{doubt}"
    )


def blas_kernel() -> str:
    """Name the kernel that numpy's BLAS runs, where threadpoolctl is installed to say it."""
    try:
        pools = importlib.import_module("threadpoolctl").threadpool_info()
    except ImportError:
        return "not known, threadpoolctl is not installed"
    found = [f"{pool['internal_api']} {pool.get('architecture')}" for pool in pools]
    return ", ".join(found)


def set_environment(threads: int) -> None:
    """Start anew with `threads` threads on every side and an undisturbed BLAS.

    The variables are read when libraries load, so this process cannot change them for itself.
    """
    wanted = {"XPU_CPU_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    kept = {name: value for name, value in os.environ.items() if name not in SPOILERS}
    if {**kept, **wanted} != dict(os.environ):
        # S606: this very program
        os.execve(sys.executable, sys.orig_argv, {**kept, **wanted})  # noqa: S606 - itself


def main() -> None:
    """Measure and print."""
    parser = arguments("XPU beside ggml's CPU kernels and numpy.")
    parser.add_argument("--ggml-lib", metavar="DIR", help="directory of libggml-base, libggml-cpu")
    parser.add_argument("--threads", type=int, help="on every side; every usable core if not given")
    parser.add_argument("--seconds", type=float, default=8.0, help="of turns at each point")
    parser.add_argument("--only", default="", metavar="TEXT", help='points like "q4_k m=16 warm"')
    args = parser.parse_args()
    [facts] = default_registry().backend("cpu").devices()
    threads = args.threads or facts.multiprocessors or 1
    set_environment(threads)
    with (
        closing(Ggml(args.ggml_lib, threads)) as ggml,
        Orchestrator(store=None, tuning="off", backend="cpu") as orchestrator,
    ):
        measure(args, ggml, orchestrator, threads)


def measure(args: argparse.Namespace, ggml: Ggml, orchestrator: Orchestrator, threads: int) -> None:
    """Measure all points and report."""
    report = Report(
        "XPU beside ggml and numpy on the CPU",
        COLUMNS,
        orchestrator,
        threads=f"{threads} on every side",
        weights=f"{N} x {K}, normally distributed",
        ggml=f"{ggml.version}, buffer types {', '.join(ggml.buffer_types)}"
        + (f"; crashing, left out: {', '.join(ggml.crashing)}" if ggml.crashing else ""),
        **{"numpy's kernel": blas_kernel()},
    )
    match = Match(orchestrator, ggml, report, args.seconds)
    for fmt, families in FAMILIES.items():
        subject = match.subject(fmt, families, N, K)
        for m, memory in BATCHES:
            if args.only in f"{fmt} m={m} {memory}":
                report.add(**match.row(Point.of(subject, m, memory)))
    report.notes += [
        "ggml/XPU is the median of the ratios within rounds; above 1 XPU is faster",
        f"memory: what all workers read in the same rounds and no more, {match.reader.way}",
        f"{match.repeated} measurements repeated: quartiles over {WIDE} apart, or a busy machine",
        verdict(report.rows),
    ]
    report.finish(args)


if __name__ == "__main__":
    main()
