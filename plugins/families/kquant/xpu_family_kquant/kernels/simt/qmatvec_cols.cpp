/* A few rows of x times prepared K-quant weights: batched decode, m = 1 to 16.
 *
 * buffers: prepared weights, staged x (stage_bytes.cpp), y (m, n)          sizes: m, n, k
 * grid:    x: portions of XPU_ROWS groups of 16 columns, y: portions of XPU_COLS rows of x
 * dynamic shared memory: waves of the block * RING_BYTES (ring.h)
 *
 *   XPU_COLS  rows of x that are multiplied with a weight while it is in registers, 8 or 16; with fewer of
 *             them than m, weights are read that many times
 */
#include "bytes.h"
#include "results.h"

constexpr int WAVES = XPU_THREADS / XPU_WAVE, TILES = XPU_COLS / TILE_ROWS;
static_assert(TILES * TILE_ROWS == XPU_COLS, "cols is a multiple of 8");

using totals = float[GROUPS][TILES][SUMS];

/* The activations of eight rows, one block, in registers. */
struct x_block {
    x_quarter quarter[QUARTERS];
    float scale[QUARTERS][SUMS];
    x_sums sums;
};

/* Block b of `rows` rows from `row` on; the rest of the eight are zeros. */
inline x_block load_x(const bytes &from, const staged_x &at, int64_t b, int64_t row, int rows)
{
    x_block x = {};
    const x_place f = {};
    const part_sum place = {};
#pragma unroll
    for (int i = 0; i < f.count; ++i)
        if (f.row(i) < rows)
            for (int q = 0; q < QUARTERS; ++q)
                x.quarter[q].piece[i] =
                    from.load<four_words>(at.words(b, row + f.row(i)) + place_of_word(q * 2, f.k(i) / 4));
#pragma unroll
    for (int i = 0; i < x.sums.count; ++i)
        if (x.sums.row(i) < rows)
            x.sums[i] = from.load<uint32_t>(at.sums(b, row + x.sums.row(i)) + x.sums.k(i) * 2);
#pragma unroll
    for (int e = 0; e < SUMS; ++e)
        if (place.row(e) < rows) {
            const four_floats scale = from.load<four_floats>(at.scales(b, row + place.row(e)));
            for (int q = 0; q < QUARTERS; ++q) x.scale[q][e] = scale[q];
        }
    return x;
}

/* total += x times the block at byte `at`. */
inline void add_block(float (&total)[TILES][SUMS], const slot &w, int64_t at, const x_block (&x)[TILES])
{
    const sum_heads heads = load_heads(w, at);
    const w_mins mins = load_mins(w, at);
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) take_mins(total[tile], x[tile].sums, mins, heads);
#pragma unroll
    for (int q = 0; q < QUARTERS; ++q) {
        w_quarter quarter;
        load_operands(quarter, w, at, q);
        for (int e = 0; e < SUMS; ++e) quarter.scales[e] = scales_of(heads.of[e], q);
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
            add_quarter(total[tile], x[tile].quarter[q], x[tile].scale[q], quarter);
    }
}

/* The wave's share of k, rows of x from `row` on. */
inline void add_blocks(totals &total, const ring<XPU_WAVE> &own, const bytes &from, const staged_x &at,
                       int64_t row)
{
    const int64_t first = xpu::wave();
#pragma unroll
    for (int i = 0; i < XPU_PREFETCH; ++i) own.fetch(i, first + i * WAVES);
    int64_t step = 0;
    for (int64_t b = first; b < own.stored.blocks; b += WAVES, ++step) {
        own.fetch(step + XPU_PREFETCH, b + XPU_PREFETCH * WAVES);
        x_block x[TILES];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            const int64_t top = row + tile * TILE_ROWS;
            x[tile] = load_x(from, at, b, top, (int)xpu::min(at.m - top, (int64_t)TILE_ROWS));
        }
        xpu::copy_wait<XPU_PREFETCH>();
        xpu::wave_barrier();
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) add_block(total[g], own.memory.as<const uint8_t>(), own.slot_of(step, g), x);
        xpu::wave_barrier();
    }
    xpu::copy_wait<0>();
}

/* [wave][row][column] */
inline void leave_sums(const xpu::shared<float> &sums, const totals &total)
{
    const part_sum place = {};
#pragma unroll
    for (int g = 0; g < GROUPS; ++g)
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int e = 0; e < place.count; ++e) {
                const int row = xpu::wave() * XPU_COLS + tile * TILE_ROWS + place.row(e);
                sums[row * COLUMNS + g * GROUP + place.column(e)] = total[g][tile][e];
            }
}

XPU_KERNEL(xpu::global<const uint8_t> w, xpu::global<const uint8_t> x, results y, int64_t m, int64_t n, int64_t k)
{
    XPU_DYNAMIC_SHARED(uint8_t, memory);
    XPU_SHARED(float, sums, WAVES * XPU_COLS * COLUMNS);
    const weights stored = open_weights(w, n, k);
    const int64_t group = (int64_t)xpu::block_x() * GROUPS, row = (int64_t)xpu::block_y() * XPU_COLS;
    const staged_x staged = {m, stored.blocks};
    const ring<XPU_WAVE> own = {memory + xpu::wave() * RING_BYTES, stored, group, xpu::lane()};
    totals total = {};
    add_blocks(total, own, x, staged, row);
    leave_sums(sums, total);
    xpu::barrier();
    for (int i = xpu::thread(); i < XPU_COLS * COLUMNS; i += XPU_THREADS) {
        const int r = i / COLUMNS, c = i % COLUMNS;
        if (row + r >= m || group * GROUP + c >= n) continue;
        float sum = 0.0f;
#pragma unroll
        for (int wave = 0; wave < WAVES; ++wave) sum += sums[(wave * XPU_COLS + r) * COLUMNS + c];
        store_result(y, (row + r) * n + group * GROUP + c, sum * x.load<float>(staged.up(row + r)));
    }
}
