"""What the machine's memory gives at most when all workers only read: the bar for m = 1 cold.

    python benchmarks/read_bandwidth.py

A kernel in dialect ``c`` adds up a buffer of at least four times the last-level cache, in huge
pages, on the backend's own workers. It is compiled with several numbers of streams and distances
of prefetching, which take turns; the fastest pass of all counts, so that the figure is an upper
one. Each kernel's sum is checked: nothing is left out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from xpu import Orchestrator
from xpu.errors import XpuBuildError
from xpu.spec import Backend, Device, DeviceArray, KernelUnit, Launch

LEAST_BYTES: Final = 2 << 30
PASSES: Final = 5
STREAMS: Final = (1, 2, 4, 8, 16)
PREFETCHES: Final = (0, 2048)  # bytes ahead; 0 leaves it to the hardware
CHUNK: Final = 2 << 20  # bytes that a worker takes at a time: a huge page
SOURCE: Final = r"""
#include "xpu_c.h"
typedef int64_t lanes __attribute__((vector_size(64)));

/* Workers take chunks as they come free, and read each in STREAMS streams side by side. */
XPU_KERNEL {
    const int64_t part = CHUNK / STREAMS; /* bytes of a stream */
    lanes sum[4] = {{0}};
    for (int64_t chunk; (chunk = xpu_take(team, 1)) < sizes[0] / CHUNK;)
        for (int64_t at = 0; at < part; at += 256)
            for (int s = 0; s < STREAMS; s++) {
                const char *from = (const char *)buffers[0] + chunk * CHUNK + s * part + at;
                for (int i = 0; i < 4; i++) {
                    if (PREFETCH) __builtin_prefetch(from + PREFETCH + 64 * i);
                    sum[i] += *(const lanes *)(from + 64 * i);
                }
            }
    sum[0] += sum[1] + sum[2] + sum[3];
    int64_t all = 0;
    for (int i = 0; i < 8; i++) all += sum[0][i];
    ((int64_t *)buffers[1])[team->worker] = all;
}
"""


def read_bandwidth(backend: Backend) -> tuple[float, str]:
    """Return bytes per second of the fastest pass, and how it read."""
    device = backend.open()
    wanted = max(LEAST_BYTES, 4 * (device.facts.last_level_cache_bytes or 0))
    data = device.allocate(-(-wanted // CHUNK) * CHUNK, poisoned=True)  # each int64 is -1
    readers = _readers(backend, device, data)
    times = {}
    for visit, name in product(range(PASSES), readers):
        started = time.perf_counter()
        readers[name]()
        times[name, visit] = time.perf_counter() - started
    best = min(times, key=times.__getitem__)
    return data.nbytes / times[best], best[0]


def _readers(backend: Backend, device: Device, data: DeviceArray) -> dict[str, Callable[[], None]]:
    variants = {
        f"{streams} streams a worker, prefetching {prefetch} B ahead": {
            "STREAMS": str(streams),
            "PREFETCH": str(prefetch),
            "CHUNK": str(CHUNK),
        }
        for streams in STREAMS
        for prefetch in PREFETCHES
    }
    units = [KernelUnit(name, "read_all", SOURCE, {}, value) for name, value in variants.items()]
    compiler = backend.compiler()
    codes = compiler.compile(units, compiler.native_target(), deadline_s=60.0)
    readers: dict[str, Callable[[], None]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, code in zip(variants, codes, strict=True):
            if isinstance(code, XpuBuildError):
                raise code
            path = Path(directory) / f"{len(readers)}.so"
            path.write_bytes(code.code)
            sums = device.allocate(8 * (device.facts.multiprocessors or 1))
            kernel = device.load(path, "read_all")
            launch = device.launcher(kernel, Launch(), (data, sums), (data.nbytes,))
            readers[name] = _checked(device, launch, sums, -data.nbytes // 8)
    return readers


def _checked(
    device: Device, launch: Callable[[], None], sums: DeviceArray, wanted: int
) -> Callable[[], None]:
    """Return the launch after one checked, untimed one; it keeps the sums alive."""

    def run(_owner: DeviceArray = sums) -> None:
        launch()

    run()
    found = int(device.to_host(sums).view(np.int64).sum())
    if found != wanted:
        raise AssertionError(f"the reader added up {found}, not {wanted}")
    return run


def main() -> None:
    """Print it."""
    with Orchestrator(store=None, tuning="off", backend="cpu") as orchestrator:
        rate, way = read_bandwidth(orchestrator.backend)
        print(f"{rate / 1e9:.1f} GB/s on {orchestrator.facts.multiprocessors} workers, {way}")


if __name__ == "__main__":
    main()
