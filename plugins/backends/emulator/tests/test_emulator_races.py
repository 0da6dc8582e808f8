"""Random programs of accesses and barriers: a race is found when there is one, and only then."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import Launch

THREADS, STEPS, CELLS = 128, 6, 8
NOTHING, READ, WRITE, WIDE_READ, WIDE_WRITE = range(5)
WRITES = (WRITE, WIDE_WRITE)
WIDE_CELLS = 4
NO_SYNC, WAVE, BLOCK = range(3)

SOURCE = """
XPU_KERNEL(xpu::global<const uint8_t> kind, xpu::global<const uint8_t> cell,
           xpu::global<const uint8_t> sync, xpu::global<int> y, int64_t steps) {
    XPU_SHARED(uint16_t, shared, 8);
    using four = xpu::vec<uint16_t, 4>;
    const int t = xpu::thread();
    if (t == 0) for (int i = 0; i < 8; ++i) shared[i] = 0;
    xpu::barrier();
    int sum = 0;
    for (int64_t s = 0; s < steps; ++s) {
        const int what = kind[s * XPU_THREADS + t], where = cell[s * XPU_THREADS + t];
        if (what == 1) sum += shared[where];
        if (what == 2) shared[where] = t;
        if (what == 3) sum += shared.load<four>(where)[2];
        if (what == 4) shared.store<four>(where, four{{1, 2, 3, 4}});
        if (sync[s] == 1) xpu::wave_barrier();
        if (sync[s] == 2) xpu::barrier();
    }
    y[t] = sum;
}
"""


def has_race(kind: np.ndarray, cell: np.ndarray, sync: np.ndarray, wave: int) -> bool:
    """Compare every two accesses that have a cell in common."""

    def cells(s: int, t: int) -> set[int]:
        wide = WIDE_CELLS if kind[s, t] in (WIDE_READ, WIDE_WRITE) else 1
        return set(range(cell[s, t], cell[s, t] + wide))

    accesses = [(s, t) for s, t in np.ndindex(STEPS, THREADS) if kind[s, t] != NOTHING]
    for (s, t), (r, u) in itertools.combinations(accesses, 2):
        if t == u or not cells(s, t) & cells(r, u):
            continue
        if kind[s, t] not in WRITES and kind[r, u] not in WRITES:
            continue
        between = sync[min(s, r) : max(s, r)]
        if BLOCK in between or (t // wave == u // wave and WAVE in between):
            continue
        return True
    return False


def test_random_programs(load, wave) -> None:
    rng = np.random.default_rng()
    device, kernel = load(SOURCE, wave, XPU_THREADS=THREADS)
    seen = []
    for _ in range(250):
        density = rng.choice([0.005, 0.02])
        kind = rng.choice(range(5), (STEPS, THREADS), p=[1 - density, *[density / 4] * 4])
        cell = rng.integers(0, CELLS, (STEPS, THREADS))
        cell = np.where(kind < WIDE_READ, cell, cell // WIDE_CELLS * WIDE_CELLS)
        sync = rng.choice([NO_SYNC, WAVE, BLOCK], STEPS)
        arrays = [it.astype(np.uint8) for it in (kind, cell, sync)]
        taken = [device.from_host(it) for it in [*arrays, np.zeros(THREADS, np.int32)]]
        call = device.launcher(kernel, Launch(), taken, [STEPS])
        expected = has_race(kind, cell, sync, wave)
        if expected:
            with pytest.raises(XpuLaunchException, match=r"^data race: .*shared\[\d\]"):
                call()
        else:
            call()
        seen.append(expected)
    assert 25 < sum(seen) < 225  # both kinds of program were tried
