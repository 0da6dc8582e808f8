"""Triton's autotuner on a half-precision product: what it picks, how long it takes, and an oracle.

    python benchmarks/triton_gemm.py oracle|tune < questions.json

y (M, N) = x (M, K) times the transpose of W (N, K), all float16, sums in float32: the problem of
the families beside it, with weights that are not quantised. ``choice_quality.py`` runs it in
processes of its own and ``dispatch.py`` imports it. It needs PyTorch and Triton.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
import triton
import triton.language as tl
from standings import oracle_of
from turns import interleaved

from xpu.measure import KernelTimer, Turn, rotation_count
from xpu.measure.rotation import FACTOR
from xpu.spec import TimerTier

Launch = Callable[[], object]

SHAPES: Final = (  # rows, columns and depth of a tile, warps, stages
    (16, 64, 128, 4, 4),
    (32, 64, 128, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (128, 64, 64, 4, 4),
    (128, 128, 64, 8, 3),
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
)
AHEAD_CYCLES: Final = 400_000
"""Cycles that the device waits for, while the host queues a bracket: some 0.2 ms."""
_EXACT: Final = 0.02  # largest error of a result, over the root mean square of all


# The compiler reads annotations, and knows none but its own.
def product(  # type: ignore[no-untyped-def]
    x,
    w,
    y,
    m,
    n,
    k,
    TILE_M: tl.constexpr,  # noqa: N803 - as the language writes constants
    TILE_N: tl.constexpr,  # noqa: N803 - the same
    TILE_K: tl.constexpr,  # noqa: N803 - the same
):
    """Multiply one tile; tiles that share weights are neighbours."""
    down = tl.cdiv(m, TILE_M)
    at = tl.program_id(0)
    rows = at % down * TILE_M + tl.arange(0, TILE_M)
    columns = at // down * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K)
    # Rows and columns that there are not read others' values, which nobody stores.
    from_x = x + (rows % m)[:, None] * k + depth[None, :]
    from_w = w + (columns % n)[None, :] * k + depth[:, None]
    sums = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start in range(0, k, TILE_K):
        is_there = depth < k - start
        part_x = tl.load(from_x, mask=is_there[None, :], other=0.0)
        part_w = tl.load(from_w, mask=is_there[:, None], other=0.0)
        sums = tl.dot(part_x, part_w, sums)
        from_x += TILE_K
        from_w += TILE_K
    to = y + rows[:, None] * n + columns[None, :]
    tl.store(to, sums.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))


plain = triton.jit(product)
configs = [
    triton.Config({"TILE_M": m, "TILE_N": n, "TILE_K": k}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in SHAPES
]
tuned = triton.autotune(configs=configs, key=["m", "n", "k"])(plain)


def grid_of(m: int, n: int) -> Callable[[Mapping[str, int]], tuple[int]]:
    """Return what gives the number of tiles."""
    return lambda meta: (triton.cdiv(m, meta["TILE_M"]) * triton.cdiv(n, meta["TILE_N"]),)


def name_of(config: Any) -> str:
    """Name a configuration."""
    tile = config.kwargs
    return f"t{tile['TILE_M']}x{tile['TILE_N']}x{tile['TILE_K']}w{config.num_warps}"


def tensors(point: Sequence[int], copies: int = 1) -> list[tuple[Any, Any, Any]]:
    """Return x, w and y; what is written is shared by all copies."""
    m, n, k = point
    draw = partial(torch.randn, dtype=torch.float16, device="cuda")
    y = torch.empty((m, n), dtype=torch.float16, device="cuda")
    first = (draw((m, k)), draw((n, k)), y)
    return [first, *((first[0].clone(), first[1].clone(), y) for _ in range(copies - 1))]


class Replay(TimerTier):
    """Brackets that are replayed as a graph, behind work that keeps the device busy meanwhile."""

    name = "torch events around a graph's replay"

    def __init__(self, cache_bytes: int) -> None:
        self._elsewhere = torch.empty(FACTOR * cache_bytes, dtype=torch.int8, device="cuda")
        self._graphs: dict[tuple[int, ...], tuple[Any, Sequence[Launch]]] = {}
        self._stream = torch.cuda.Stream()
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def bracket_ns(self, launches: Sequence[Launch]) -> float:
        """Return nanoseconds of all launches."""
        graph = self._graph(launches)
        torch.cuda._sleep(AHEAD_CYCLES)
        self._start.record()
        graph.replay()
        self._end.record()
        torch.cuda.synchronize()
        return 1e6 * float(self._start.elapsed_time(self._end))

    def _graph(self, launches: Sequence[Launch]) -> Any:
        key = tuple(map(id, launches))
        if key not in self._graphs:
            graph = torch.cuda.CUDAGraph()
            # Not torch.cuda.graph, which collects garbage at each of many captures.
            with torch.cuda.stream(self._stream):
                graph.capture_begin()
                for launch in launches:
                    launch()
                graph.capture_end()
            graph.replay()  # the first replay brings it to the device, and its data to the cache
            self._elsewhere.zero_()
            torch.cuda.synchronize()
            self._graphs[key] = (graph, launches)  # alive, so that no other launch has their number
        return self._graphs[key][0]


def consult(point: Sequence[int], seconds: float) -> dict[str, Any]:
    """Read every configuration in turns, cold, as the oracle beside it does members."""
    m, n, k = point
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    sets = tensors(point, rotation_count(cache, 2 * (m * k + n * k + m * n)))
    timer, turn, grid = KernelTimer(Replay(cache)), Turn(), grid_of(m, n)
    names, readers = [], []
    for config in configs:
        launches = [partial(plain[grid], *one, m, n, k, **config.all_kwargs()) for one in sets]
        launches[0]()  # compiled, and loaded: neither can be captured
        _check(*sets[0])
        timer.warm_up(launches, turn=turn)
        names.append(name_of(config))
        readers.append(partial(timer.time_ns, launches, turn=turn))
    times = interleaved(readers, seconds) / 1e3
    return {"members": oracle_of(names, times), "rounds": len(times), "faults": {}}


def _check(x: Any, w: Any, y: Any) -> None:
    """Compare with torch's product, and spoil the result for the next one.

    Raises
    ------
    AssertionError
        It is wrong: its time says nothing.
    """
    exact = torch.mm(x, w.t()).float()
    error = float(((y.float() - exact).abs().max() / exact.square().mean().sqrt()).item())
    if not error <= _EXACT:
        raise AssertionError(f"Triton's product is off by {error:.3g}")
    y.fill_(float("nan"))


def choose(point: Sequence[int]) -> dict[str, Any]:
    """Tune once, timed: the arrays are there, and so are compiled kernels on the disk."""
    [(x, w, y)] = tensors(point)
    m, n, k = point
    torch.cuda.synchronize()
    started = time.perf_counter()
    tuned[grid_of(m, n)](x, w, y, m, n, k)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - started
    return {
        "winner": name_of(tuned.best_config),
        "seconds": elapsed,
        "trial_s": tuned.bench_time,
        "members": len(configs),
    }


def main() -> None:
    """Answer on the standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("oracle", "tune"))
    parser.add_argument("--seconds", type=float, default=1.5, help="of readings a question")
    args = parser.parse_args()
    answers = []
    torch.cuda.synchronize()
    for question in json.load(sys.stdin):
        if args.mode == "oracle":
            answers.append(consult(question["point"], args.seconds))
        else:
            answers.append(choose(question["point"]))
        gc.collect()
        torch.cuda.empty_cache()
    versions = f"Triton {triton.__version__}, PyTorch {torch.__version__}, numpy {np.__version__}"
    print(json.dumps({"answers": answers, "versions": versions}))


if __name__ == "__main__":
    main()
