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


def measure() -> dict[str, float]:
    """Return nanoseconds of each way to use a store, by what was done."""
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
        return {
            "recall, loaded": nanoseconds(lambda name: store.recall(name, asked), names, CALLS),
            "recall, first from disk": first / len(names),
            "recall, a miss": nanoseconds(
                lambda name: store.recall(name + ".", asked), names, 2000
            ),
            "remember, with fsync": nanoseconds(
                lambda name: store.remember(name, "t64x64", build), names, 50
            ),
        }


def main() -> None:
    """Measure and print."""
    for what, taken_ns in measure().items():
        print(f"{what:24}{taken_ns:10.0f} ns")


if __name__ == "__main__":
    main()
