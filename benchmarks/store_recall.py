"""What recalling an answer costs once it is loaded, and what a miss and an answer cost.

    python benchmarks/store_recall.py

The first line is the one with a limit: 1000 ns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

from xpu.model import DeviceFacts
from xpu.store import Autotune, build_id

CALLS = 100_000


def nanoseconds(call: Callable[[str], object], names: list[str], calls: int) -> float:
    """Return the least nanoseconds a call over seven rounds, the loop's own cost included."""
    rounds = []
    for _ in range(7):
        begin = time.perf_counter_ns()
        for number in range(calls):
            call(names[number % len(names)])
        rounds.append((time.perf_counter_ns() - begin) / calls)
    return min(rounds)


def main() -> None:
    """Measure and print."""
    names = [f"shape.q4k_tile.{m}x4096x4096" for m in range(1, 257)]
    facts = DeviceFacts(backend="any", multiprocessors=128)
    build = build_id({"device": "part"}, {"t64x64": "ab" * 32})
    asked = build_id({"device": "part"}, {"t64x64": "ab" * 32})  # equal, not the same object
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            Autotune(directory, facts).remember(name, "t64x64", build, margin_permille=20)
        store = Autotune(directory, facts)
        first = time.perf_counter_ns()
        for name in names:
            assert store.recall(name, asked) is not None
        first = time.perf_counter_ns() - first
        loaded = nanoseconds(lambda name: store.recall(name, asked), names, CALLS)
        missing = nanoseconds(lambda name: store.recall(name + ".", asked), names, 2000)
        kept = nanoseconds(lambda name: store.remember(name, "t64x64", build), names, 50)
    print(f"recall, loaded         {loaded:10.0f} ns")
    print(f"recall, first from disk{first / len(names):10.0f} ns")
    print(f"recall, a miss         {missing:10.0f} ns")
    print(f"remember, with fsync   {kept:10.0f} ns")


if __name__ == "__main__":
    main()
