"""Right kernels pass, and give what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()


@pytest.fixture(params=["", "-fast"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


SUM = """
XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y, int64_t n) {
    XPU_SHARED(float, part, XPU_THREADS / xpu::wave_width);
    float sum = 0;
    for (int64_t i = xpu::thread(); i < n; i += xpu::threads()) sum += x[xpu::block_x() * n + i];
    sum = xpu::wave_sum(sum);
    if (xpu::lane() == 0) part[xpu::wave()] = sum;
    xpu::barrier();
    if (xpu::wave() == 0) {
        sum = xpu::lane() < XPU_THREADS / xpu::wave_width ? part[xpu::lane()] : 0.0f;
        sum = xpu::wave_sum(sum);
        if (xpu::lane() == 0) y[xpu::block_x()] = sum;
    }
}
"""


@pytest.mark.parametrize("threads", [64, 256, 1024])
def test_a_block_sums(run, wave, suffix, rng, threads) -> None:
    rows, n = int(rng.integers(1, 6)), int(rng.integers(1, 3000))
    x = rng.standard_normal((rows, n)).astype(np.float32)
    y = np.full(rows, np.nan, np.float32)
    run(SUM, [x, y], [n], wave=wave, suffix=suffix, grid=(rows, 1, 1), XPU_THREADS=threads)
    assert np.allclose(y, x.astype(np.float64).sum(axis=1), atol=1e-3)


TRANSPOSE = """
using pair = xpu::vec<uint16_t, 2>;

static void fetch(xpu::shared<uint16_t> tile, xpu::global<const uint16_t> x, int64_t m, int64_t n) {
    for (int i = xpu::thread(); i < 32 * 32; i += xpu::threads()) {
        const int64_t row = xpu::block_y() * 32 + i / 32, column = xpu::block_x() * 32 + i % 32;
        if (row < m && column < n) tile[i / 32 * 34 + i % 32] = x[row * n + column];
        else tile[i / 32 * 34 + i % 32] = 0;
    }
}

XPU_KERNEL(xpu::global<const uint16_t> x, xpu::global<uint16_t> y, int64_t m, int64_t n) {
    XPU_DYNAMIC_SHARED(uint16_t, tile);
    fetch(tile, x, m, n);
    xpu::barrier();
    for (int i = xpu::thread(); i < 32 * 16; i += xpu::threads()) {
        const int64_t row = xpu::block_x() * 32 + i / 16, column = xpu::block_y() * 32 + i % 16 * 2;
        const pair two{{tile[i % 16 * 68 + i / 16], tile[i % 16 * 68 + 34 + i / 16]}};
        if (row < n && column + 1 < m && m % 2 == 0) y.store<pair>(row * m + column, two);
        else
            for (int j = 0; j < 2; ++j)
                if (row < n && column + j < m) y[row * m + column + j] = two[j];
    }
}
"""


@pytest.mark.parametrize(("m", "n"), [(32, 64), (1, 1), (33, 31), (70, 95)])
def test_a_transposition_through_shared_memory(run, wave, suffix, rng, m, n) -> None:
    x = rng.integers(0, 2**16, (m, n)).astype(np.uint16)
    y = np.zeros((n, m), np.uint16)
    grid = (-(-n // 32), -(-m // 32), 1)
    more = {"grid": grid, "dynamic": 32 * 34 * 2, "XPU_THREADS": 128}
    run(TRANSPOSE, [x, y], [m, n], wave=wave, suffix=suffix, **more)
    assert (y == x.T).all()


PRODUCT = """
using T = XPU_T;
using R = XPU_R;
constexpr int K = XPU_K, STRIDE = K + 16 / (int)sizeof(T);

/* y (m, n) = x (m, k) w (n, k)^T, a tile of 16 x 16 for each wave, side by side along n. */
XPU_KERNEL(xpu::global<const T> x, xpu::global<const T> w, xpu::global<R> y,
           int64_t m, int64_t n, int64_t k) {
    constexpr int WAVES = XPU_THREADS / xpu::wave_width;
    XPU_SHARED(T, left, 16 * STRIDE);
    XPU_SHARED(T, right, WAVES * 16 * STRIDE);
    const int64_t row = xpu::block_y() * 16, column = xpu::block_x() * WAVES * 16;
    xpu::accumulator<R, 16, 16, K> c;
    xpu::fill(c, R(0));
    for (int64_t at = 0; at < k; at += K) {
        for (int i = xpu::thread(); i < 16 * K; i += xpu::threads()) {
            left[i / K * STRIDE + i % K] = T{};
            if (row + i / K < m && at + i % K < k)
                left[i / K * STRIDE + i % K] = x[(row + i / K) * k + at + i % K];
        }
        for (int i = xpu::thread(); i < WAVES * 16 * K; i += xpu::threads()) {
            right[i / K * STRIDE + i % K] = T{};
            if (column + i / K < n && at + i % K < k)
                right[i / K * STRIDE + i % K] = w[(column + i / K) * k + at + i % K];
        }
        xpu::barrier();
        xpu::matrix_a<T, 16, 16, K> a;
        xpu::matrix_b<T, 16, 16, K> b;
        xpu::load(a, left, 0, STRIDE);
        xpu::load(b, right, xpu::wave() * 16 * STRIDE, STRIDE);
        xpu::multiply(c, a, b);
        xpu::barrier();
    }
    for (int i = 0; i < c.count; ++i) {
        const int64_t r = row + c.row(i), j = column + xpu::wave() * 16 + c.column(i);
        if (r < m && j < n) y[r * n + j] = c[i];
    }
}
"""


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16 by another way than the prelude's: by halves of a step."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    low = bits & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & ((bits >> 16) % 2 == 1))
    return ((bits >> 16) + up).astype(np.uint16)


@pytest.mark.parametrize(
    ("kind", "depth", "suffix"),
    [
        ("int8_t", 16, ""),
        ("int8_t", 32, ""),
        ("int8_t", 32, "-fast"),
        ("xpu::half", 16, "-fast"),
        ("xpu::half", 32, ""),
        ("xpu::bfloat16", 16, ""),
        ("xpu::bfloat16", 32, "-fast"),
    ],
)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 32, 64), (5, 37, 50)])
def test_a_product_of_cooperative_matrices(run, wave, suffix, rng, kind, depth, m, n, k) -> None:
    if kind == "int8_t":
        x, w = (rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
        wide_x, wide_w = x.astype(np.int64), w.astype(np.int64)
    else:
        halves = [rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n)]
        if kind == "xpu::half":
            x, w = (half.astype(np.float16) for half in halves)
            wide_x, wide_w = x.astype(np.float64), w.astype(np.float64)
        else:
            x, w = (bfloat16(half) for half in halves)
            wide_x, wide_w = (
                (half.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
                for half in (x, w)
            )
    sum_type = np.int32 if kind == "int8_t" else np.float32
    y = np.full((m, n), 77, sum_type)
    grid = (-(-n // (128 // wave * 16)), -(-m // 16), 1)
    defines = {"XPU_T": kind, "XPU_R": "int32_t" if kind == "int8_t" else "float", "XPU_K": depth}
    arrays = [x, w, y]
    run(PRODUCT, arrays, [m, n, k], wave=wave, suffix=suffix, grid=grid, XPU_THREADS=128, **defines)
    exact = wide_x @ wide_w.T
    if kind == "int8_t":
        assert (y == exact).all()
    else:
        assert np.abs(y - exact).max() < 1e-5 * k


VERBS = """
XPU_KERNEL(xpu::global<int> x, xpu::global<int> y, xpu::global<float> f,
           xpu::global<int64_t> l) {
    const int t = xpu::thread();
    const int v = x[t];
    int at = 0;
    auto put = [&](int value) { y[at++ * XPU_THREADS + t] = value; };
    put(xpu::shuffle(v, (xpu::lane() * 7 + 3) % xpu::wave_width));
    put(xpu::shuffle_xor(x[t], 5));
    put(xpu::shuffle_down(v, 3));
    put(xpu::wave_sum(x[t]));
    put(xpu::wave_max(v));
    put(xpu::group_sum<8>(v));
    put(xpu::group_sum<1>(v));
    put(xpu::wave_any(v == x[40]));
    f[t] = xpu::wave_sum((float)v * 0.37f);
    f[XPU_THREADS + t] = xpu::wave_max(t == 9 ? __builtin_nanf("") : (float)v);
    l[t] = xpu::shuffle((int64_t)v << 33, 1);
    const xpu::vec<int, 4> four = xpu::shuffle(xpu::vec<int, 4>{{v, t, v, -t}}, 2);
    put(four[0] + four[3]);
}
"""


def test_the_verbs_of_a_wave(run, wave, suffix, rng) -> None:
    x = rng.integers(-1000, 1000, 128).astype(np.int32)
    y, f = np.zeros((9, 128), np.int32), np.zeros((2, 128), np.float32)
    wide = np.zeros(128, np.int64)
    run(VERBS, [x, y, f, wide], wave=wave, suffix=suffix, XPU_THREADS=128)
    waves = x.reshape(-1, wave)
    lane = np.arange(wave)
    down = np.where(lane + 3 < wave, lane + 3, lane)
    expected = [
        waves[:, (lane * 7 + 3) % wave],
        waves[:, lane ^ 5],
        waves[:, down],
        np.repeat(waves.sum(axis=1), wave),
        np.repeat(waves.max(axis=1), wave),
        np.repeat(x.reshape(-1, 8).sum(axis=1), 8),
        x,
        np.repeat((waves == x[40]).any(axis=1), wave),
        np.repeat(waves[:, 2] - (np.arange(128).reshape(-1, wave)[:, 2]), wave),
    ]
    for got, right in zip(y, expected, strict=True):
        assert (got == np.ravel(right)).all()
    sums = f[0].reshape(-1, wave)
    assert (sums == sums[:, :1]).all()  # the same bits in every lane
    assert np.allclose(sums[:, 0], waves.sum(axis=1) * 0.37, atol=0.05)
    largest = f[1].reshape(-1, wave)
    assert np.isnan(largest[0]).all()
    assert (largest[1:] == waves[1:].max(axis=1, keepdims=True)).all()
    assert (wide.reshape(-1, wave) == waves[:, 1:2].astype(np.int64) << 33).all()


def test_a_pipeline_of_asynchronous_copies(run, wave, suffix, rng) -> None:
    source = """
    using four = xpu::vec<int, 4>;
    XPU_KERNEL(xpu::global<const int> x, xpu::global<int> y, int64_t n) {
        XPU_SHARED(int, stage, 2 * XPU_THREADS * 4);
        const int t = xpu::thread();
        const int64_t steps = n / (XPU_THREADS * 4);
        auto start = [&](int64_t step) {
            if (step < steps)
                xpu::copy_async(stage, (step % 2 * XPU_THREADS + t) * 4,
                                x, (step * XPU_THREADS + t) * 4, 16);
            xpu::copy_commit();
        };
        start(0);
        int sum = 0;
        for (int64_t step = 0; step < steps; ++step) {
            start(step + 1);
            xpu::copy_wait<1>();
            xpu::barrier();
            const four v = stage.load<four>((step % 2 * XPU_THREADS + (t ^ 33)) * 4);
            sum += v[0] + v[1] + v[2] + v[3];
            xpu::barrier();
        }
        xpu::atomic_add(y, 0, sum);
    }"""
    x = rng.integers(-1000, 1000, 64 * 4 * 5).astype(np.int32)
    y = np.zeros(1, np.int32)
    run(source, [x, y], [x.size], wave=wave, suffix=suffix)
    assert y[0] == x.sum()


def test_indices_and_split_sums(run, wave, suffix) -> None:
    source = """XPU_KERNEL(xpu::global<float> y, xpu::global<int> seen) {
        xpu::atomic_add(y, xpu::block_x() + xpu::grid_x() * xpu::block_y(), 1.0f + xpu::block_z());
        if (xpu::thread() == XPU_THREADS - 1) {
            xpu::global<int> own = seen + 4;
            own[0] = xpu::grid_x() * 100 + xpu::grid_y() * 10 + xpu::grid_z();
            own[1] = xpu::wave() * 1000 + xpu::lane();
            own[-1] = xpu::threads();
            own[2] = 6; own[2] += 1; own[2] *= own[2]; own[2] -= 2; own[2] /= 2;
            own[2] |= 64; ++own[2];
        }
    }"""
    y, seen = np.zeros((3, 2), np.float32), np.zeros(8, np.int32)
    run(source, [y, seen], wave=wave, suffix=suffix, grid=(2, 3, 4))
    assert (y == 64 * (1 + 2 + 3 + 4)).all()
    last = divmod(63, wave)
    assert seen.tolist() == [0, 0, 0, 64, 234, last[0] * 1000 + last[1], 88, 0]


def test_views_of_other_types(run, wave, suffix) -> None:
    source = """XPU_KERNEL(xpu::global<const uint8_t> bytes, xpu::global<uint16_t> y) {
        XPU_SHARED(uint32_t, words, 4);
        xpu::shared<uint8_t> narrow = words.as<uint8_t>();
        if (xpu::thread() < 16) narrow[xpu::thread()] = bytes[xpu::thread()];
        xpu::barrier();
        xpu::global<const uint16_t> pairs = (bytes + 4).as<uint16_t>();
        const uint32_t w = words[1], v = words.as<const uint32_t>()[2];
        if (xpu::thread() == 0) { y[0] = pairs[1]; y[1] = w >> 16; y[2] = v & 0xffff; }
    }"""
    y = np.zeros(3, np.uint16)
    run(source, [np.arange(16, dtype=np.uint8), y], wave=wave, suffix=suffix)
    assert [hex(v) for v in y] == ["0x706", "0x706", "0x908"]
