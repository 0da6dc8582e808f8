"""What the filter costs at bind: 1,000 candidates, and one bind of eight members.

Run it with ``python benchmarks/filter_speed.py``; the package must be importable. Figures
are wall time on the host, the shipped rules apply, and facts and code are at hand, as they
are at a bind.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from xpu.filter import ShapeFilter
from xpu.model import DeviceFacts, KernelFacts, Problem, ShapeCandidate
from xpu.settings import shipped_rules

ROUNDS = 21
CANDIDATES = 1000
MEMBERS = 8
# An H200 as its driver reports it (tests/vectors/devices.toml), with the facts that no post
# shows filled in, so that no rule is cut short by an absent operand.
FACTS = DeviceFacts(
    backend="any",
    multiprocessors=132,
    wave_width=32,
    max_threads_per_block=1024,
    max_threads_per_multiprocessor=2048,
    max_blocks_per_multiprocessor=32,
    registers_per_multiprocessor=65536,
    register_allocation_unit=256,
    max_registers_per_thread=255,
    shared_bytes_per_block=49152,
    shared_bytes_per_block_optin=232448,
    shared_bytes_per_multiprocessor=233472,
    reserved_shared_bytes_per_block=1024,
    max_grid_x=2**31 - 1,
    max_grid_y=65535,
    max_grid_z=65535,
)
PROBLEM = Problem(m=512, n=4096, k=4096)


def candidates(count: int) -> list[tuple[ShapeCandidate, KernelFacts]]:
    """Make distinct candidates that no rule prunes: the dearest case, every rule is asked."""
    made = []
    for index in range(count):
        shape = ShapeCandidate(
            f"t{index}",
            tile_m=16 * (1 + index % 8),
            tile_n=16 * (1 + index % 16),
            tile_k=256,
            threads=128,
            dynamic_shared_bytes=64 * (index % 512),
            index_bits=32,
        )
        kernel = KernelFacts(registers=64 + index % 64, spill_bytes=0, static_shared_bytes=1024)
        made.append((shape, kernel))
    return made


def filtering(made: list[tuple[ShapeCandidate, KernelFacts]]) -> Callable[[], None]:
    """Return what is timed: a filter is made, considers every candidate, and names survivors."""

    def run() -> None:
        shape_filter = ShapeFilter("q4k_tile", FACTS, PROBLEM)
        for shape, kernel in made:
            shape_filter.consider(shape, kernel)
        if len(shape_filter.survivors) != len(made):
            raise AssertionError(shape_filter.pruned[0])

    return run


def milliseconds(run: Callable[[], None]) -> list[float]:
    """Time a call several times, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - started) / 1e6)
    return times


def main() -> None:
    """Print a table."""
    rules = shipped_rules()
    print(f"{len(rules)} rules, {ROUNDS} rounds, milliseconds")
    first = filtering(candidates(1))
    started = time.perf_counter_ns()
    first()
    compiling = (time.perf_counter_ns() - started) / 1e6
    print(f"{'':34}{'best':>9}{'median':>9}")
    for name, count in (
        (f"{CANDIDATES} candidates", CANDIDATES),
        (f"one bind, {MEMBERS} members", MEMBERS),
    ):
        times = milliseconds(filtering(candidates(count)))
        print(f"{name:34}{min(times):9.3f}{statistics.median(times):9.3f}")
    print(f"{'first bind, rules compiled':34}{compiling:9.3f}")


if __name__ == "__main__":
    main()
