"""What the machine's memory gives at most when all workers only read: the bar for m = 1 cold.

    python benchmarks/read_bandwidth.py

A kernel in dialect ``c`` adds up a buffer of at least four times the last-level cache, in huge
pages, on the backend's own workers. It is compiled with several numbers of streams and distances
of prefetching, of which the fastest counts. Every sum is checked: nothing is left out.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from xpu import Orchestrator
from xpu.errors import XpuBuildError
from xpu.spec import Backend, Device, DeviceArray, KernelUnit, Launch, LoadedKernel

LEAST_BYTES: Final = 2 << 30
PASSES: Final = 3
STREAMS: Final = (1, 2, 4, 8, 16)
PREFETCHES: Final = (0, 2048)  # bytes ahead; 0 leaves it to the hardware
SLICE: Final = 128 << 20  # bytes of a call
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


@attrs.frozen
class Reader:
    """The fastest way to read, as calls that each read another slice of memory.

    `slice_bytes` are read by one call; all slices together fill the last-level cache at least
    four times. `way` says how it reads.
    """

    calls: Sequence[Callable[[], None]]
    slice_bytes: int
    way: str

    def bytes_per_s(self) -> float:
        """Read everything once and return the rate."""
        started = time.perf_counter()
        for call in self.calls:
            call()
        return self.slice_bytes * len(self.calls) / (time.perf_counter() - started)


def fastest_reader(backend: Backend) -> Reader:
    """Compile all ways to read, let them take turns, and return the fastest."""
    device = backend.open()
    cache = device.facts.last_level_cache_bytes or 0
    count = -(-max(LEAST_BYTES, 4 * cache) // SLICE)
    data = device.allocate(count * SLICE, poisoned=True)  # each int64 is -1
    slices = [
        DeviceArray(data.address + at * SLICE, (SLICE,), "uint8", data) for at in range(count)
    ]
    ways = {
        f"{streams} streams a worker, prefetching {prefetch} B ahead": {
            "STREAMS": str(streams),
            "PREFETCH": str(prefetch),
            "CHUNK": str(CHUNK),
        }
        for streams, prefetch in product(STREAMS, PREFETCHES)
    }
    readers = [
        Reader(_calls(device, k, slices), SLICE, w) for w, k in _kernels(backend, device, ways)
    ]
    rates = {reader.way: 0.0 for reader in readers}
    for _, reader in product(range(PASSES), readers):
        rates[reader.way] = max(rates[reader.way], reader.bytes_per_s())
    return max(readers, key=lambda reader: rates[reader.way])


def _kernels(
    backend: Backend, device: Device, ways: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, LoadedKernel]]:
    units = [KernelUnit(way, "read_all", SOURCE, {}, defines) for way, defines in ways.items()]
    compiler = backend.compiler()
    codes = compiler.compile(units, compiler.native_target(), deadline_s=60.0)
    with tempfile.TemporaryDirectory() as directory:
        for number, (way, code) in enumerate(zip(ways, codes, strict=True)):
            if isinstance(code, XpuBuildError):
                raise code
            path = Path(directory) / f"{number}.so"
            path.write_bytes(code.code)
            yield way, device.load(path, "read_all")


def _calls(
    device: Device, kernel: LoadedKernel, slices: Sequence[DeviceArray]
) -> list[Callable[[], None]]:
    """Return a call for each slice, each checked once."""
    sums = device.allocate(8 * (device.facts.multiprocessors or 1))
    calls: list[Callable[[], None]] = []
    for part in slices:
        launch = device.launcher(kernel, Launch(), (part, sums), (part.nbytes,))
        calls.append(partial(_run, launch, part, sums))
        calls[-1]()
        found = int(device.to_host(sums).view(np.int64).sum())
        if found != -part.nbytes // 8:
            raise AssertionError(f"the reader added up {found}, not {-part.nbytes // 8}")
    return calls


def _run(launch: Callable[[], None], *_owners: DeviceArray) -> None:
    launch()  # keeps nothing alive by itself


def main() -> None:
    """Print it."""
    with Orchestrator(store=None, tuning="off", backend="cpu") as orchestrator:
        reader = fastest_reader(orchestrator.backend)
        rates = [reader.bytes_per_s() / 1e9 for _ in range(4 * PASSES)]
        print(
            f"{max(rates):.1f} GB/s at most, {statistics.median(rates):.1f} in the median, on "
            f"{orchestrator.facts.multiprocessors} workers: {reader.way}"
        )


if __name__ == "__main__":
    main()
