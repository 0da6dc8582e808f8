/* The engine of qgemm_tile in halves, exact to their 11 bits.
 *
 * Weights go from memory to registers and are made operands there, by each wave for itself: a quarter of a
 * block is on its way while the one before is multiplied. Activations come through shared memory, a panel of
 * 64 k at a time, in TILE_M * 144 bytes.
 */
#ifndef KQUANT_TILE_HALVES_H
#define KQUANT_TILE_HALVES_H

#include "halves.h"
#include "rows.h"

using tile_sum = step_sum; /* of 16 rows and 16 columns */
struct sums_of_wave {
    tile_sum of[DOWN][ACROSS];

    float at(int i, int j, int e) const { return of[i][j][e]; }
};

inline void clear(sums_of_wave &s)
{
    for (int i = 0; i < DOWN; ++i)
        for (int j = 0; j < ACROSS; ++j) xpu::fill(s.of[i][j], 0.0f);
}

/* A panel's line is 64 k of a row; 16 bytes beyond them bring 8 neighbouring rows to different banks. */
constexpr int LINE = QUARTER_K + 8, PANEL = TILE_M * LINE, PIECES = TILE_M * QUARTER_K / 8;
static_assert(PIECES % XPU_THREADS == 0, "the threads of a block share a panel evenly");

using panels = xpu::shared<xpu::half>;

inline void fetch_panel(const panels &to, const tile &t, const xpu::global<const xpu::half> &x, int64_t quarter)
{
#pragma unroll
    for (int i = 0; i < PIECES / XPU_THREADS; ++i) {
        const int piece = i * XPU_THREADS + xpu::thread(), row = piece / 8, at = piece % 8 * 8;
        const int64_t from = xpu::min(t.row + row, t.m - 1) * t.k + quarter * QUARTER_K + at;
        xpu::copy_async(to, quarter % STAGES * PANEL + row * LINE + at, x, from, 16);
    }
}

/* The weights of a wave: what is multiplied now, and what comes next. */
struct wave_weights {
    weights stored;
    int64_t group[ACROSS];
    float factor[ACROSS][w_step::lines];
    quarter_words next[ACROSS];
    head heads[ACROSS][w_step::lines], next_heads[ACROSS][w_step::lines];

    void open(int64_t first)
    {
        const w_step f = {};
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            group[j] = xpu::min(first + j, stored.groups - 1);
#pragma unroll
            for (int i = 0; i < f.lines; ++i)
                factor[j][i] = stored.all.load<float>(stored.factors(group[j]) + f.column(f.first(i)) * 4);
        }
    }
    void fetch(int64_t quarter)
    {
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            next[j] = load_quarter(stored.all, stored.block(group[j], quarter / QUARTERS), (int)(quarter % QUARTERS));
    }
    void fetch_heads(int64_t block)
    {
        const w_step f = {};
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
#pragma unroll
            for (int i = 0; i < f.lines; ++i)
                next_heads[j][i] = load_head(stored.all, stored.block(group[j], block),
                                             stored.tail(group[j], block), f.column(f.first(i)));
    }
};

/* A quarter: `words` are multiplied, `row` is where the wave's part of the panel begins. */
inline void multiply_quarter(sums_of_wave &s, const panels &x, int64_t panel, int row, const wave_weights &w,
                             const quarter_words (&words)[ACROSS], int quarter)
{
    quarter_scales scales[ACROSS];
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) scales[j] = scales_of(w.heads[j], w.factor[j], quarter);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        x_step a[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) xpu::load(a[i], x, panel + (row + i * 16) * LINE + step * STEP_K, LINE);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            const w_step b = operand_of(words[j], scales[j], quarter, step);
#pragma unroll
            for (int i = 0; i < DOWN; ++i) xpu::multiply(s.of[i][j], a[i], b);
        }
    }
}

inline void multiply_tile(sums_of_wave &s, const xpu::shared<uint8_t> &dynamic, const tile &t, const weights &stored,
                          const bytes &staged, int row, int group)
{
    const panels memory = dynamic.as<xpu::half>();
    const xpu::global<const xpu::half> x = staged.as<const xpu::half>();
    const int64_t first = t.first * QUARTERS, end = t.end * QUARTERS;
    wave_weights w = {stored};
    w.open(t.group + group);
    for (int i = 0; i < STAGES - 1; ++i) {
        if (first + i < end) fetch_panel(memory, t, x, first + i);
        xpu::copy_commit();
    }
    w.fetch_heads(t.first);
    w.fetch(first);
    for (int64_t start = first; start < end; start += QUARTERS) {
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
#pragma unroll
            for (int i = 0; i < w_step::lines; ++i) w.heads[j][i] = w.next_heads[j][i];
        if (start + QUARTERS < end) w.fetch_heads(start / QUARTERS + 1);
#pragma unroll
        for (int q = 0; q < QUARTERS; ++q) {
            const int64_t quarter = start + q;
            quarter_words now[ACROSS];
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) now[j] = w.next[j];
            if (quarter + 1 < end) w.fetch(quarter + 1);
            xpu::copy_wait<STAGES - 2>();
            xpu::barrier();
            if (quarter + STAGES - 1 < end) fetch_panel(memory, t, x, quarter + STAGES - 1);
            xpu::copy_commit();
            multiply_quarter(s, memory, quarter % STAGES * PANEL, row, w, now, q);
        }
    }
    xpu::copy_wait<0>();
}

/* Where staged x has what the results of a row are multiplied with. */
inline int64_t row_scale(const tile &t, int64_t row) { return t.m * t.k * 2 + row * 4; }

/* What a column's results are multiplied with: the inverse of a power of two. */
inline float column_scale(const weights &w, int64_t group, int column)
{
    return power_inverse(w.all.load<float>(w.factors(group) + column * 4));
}

#include "loaded_factors.h"

#endif
