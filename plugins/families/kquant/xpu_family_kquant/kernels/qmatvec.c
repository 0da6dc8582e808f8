/* Matrix-vector product of prepared K-quant weights: decode, m = 1 (a larger m is a loop over rows).
 *
 * buffers: prepared weights, x (m, k), y (m, n)          sizes: m, n, k
 *
 * Bound by reading the weights once, so members differ in how they ask memory for them:
 *   XPU_ROWS      groups of 16 weight rows read side by side: as many streams
 *   XPU_PREFETCH  bytes to prefetch ahead in every stream, 0 for none
 *   XPU_CHUNK     groups handed to a worker at a time
 *
 * Every worker quantises x for itself: that costs about a microsecond, a barrier costs more.
 */
#include "xpu_c.h"
#include "dot.h"

static int64_t own_bytes(const int64_t *sizes)
{
    return (int64_t)sizeof(quantised) * (sizes[2] / BLOCK_K);
}

XPU_SCRATCH { return own_bytes(sizes) * workers; }

/* acc + one block of one group times x. */
INLINE void add_block(const weights *w, int64_t group, int64_t block, const quantised *x, vf acc[SLICES])
{
    const uint8_t *stored = stored_block(w, group, block);
    for (int slice = 0; slice < SLICES; ++slice) {
        float scales[SUBS * LANES] __attribute__((aligned(64))), mins[SUBS * LANES] __attribute__((aligned(64)));
        decode_scales(w, group, block, slice, scales, mins, LANES);
#pragma GCC unroll 4
        for (int quarter = 0; quarter < 4; ++quarter) {
            const int a = low_span(quarter), b = high_span(quarter);
            vi in_a[PARTS], in_b[PARTS];
            start_span(x, a, in_a);
            start_span(x, b, in_b);
#pragma GCC unroll 8
            for (int r = 0; r < 8; ++r) {
                vu low, high;
                decode_line(stored, slice, quarter, r, &low, &high);
                in_a[r * 4 / SUB_K] = dot4(in_a[r * 4 / SUB_K], low, spread_word(x->q + a * 32 + r * 4));
                in_b[r * 4 / SUB_K] = dot4(in_b[r * 4 / SUB_K], high, spread_word(x->q + b * 32 + r * 4));
            }
            acc[slice] = finish_span(acc[slice], in_a, x, a, scales, mins, LANES);
            acc[slice] = finish_span(acc[slice], in_b, x, b, scales, mins, LANES);
        }
    }
}

INLINE void prefetch_block(const uint8_t *stored)
{
    if (XPU_PREFETCH > 0)
        for (int at = 0; at < STORED_BYTES; at += LINE) __builtin_prefetch(stored + XPU_PREFETCH + at, 0, 3);
}

static void store_columns(float *y, const vf acc[SLICES], float back, int64_t columns)
{
    float out[GROUP] __attribute__((aligned(64)));
    for (int slice = 0; slice < SLICES; ++slice) *(vf *)(out + slice * LANES) = acc[slice] * back;
    memcpy(y, out, (size_t)at_most(columns, GROUP) * sizeof *y);
}

/* `count` (a constant) neighbouring groups, side by side. */
INLINE void multiply_groups(const weights *w, int64_t group, const int count, const quantised *x, float back, float *y,
                            int64_t n)
{
    vf acc[XPU_ROWS][SLICES] = {0};
    for (int64_t b = 0; b < w->blocks; ++b)
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i) {
            prefetch_block(stored_block(w, group + i, b));
            add_block(w, group + i, b, x + b, acc[i]);
        }
    for (int i = 0; i < count; ++i) {
        const int64_t column = (group + i) * GROUP;
        store_columns(y + column, acc[i], back, n - column);
    }
}

static void multiply_row(const xpu_team *team, const weights *w, const quantised *x, float back, float *y, int64_t n)
{
    const int64_t groups = ceil_div(n, GROUP);
    for (int64_t first; (first = xpu_take(team, XPU_CHUNK)) < groups;) {
        const int64_t end = at_most(first + XPU_CHUNK, groups);
        int64_t g = first;
        for (; g + XPU_ROWS <= end; g += XPU_ROWS) multiply_groups(w, g, XPU_ROWS, x, back, y, n);
        for (; g < end; ++g) multiply_groups(w, g, 1, x, back, y, n);
    }
}

XPU_KERNEL
{
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
    if (m <= 0 || n <= 0 || k <= 0) return;
    const weights w = open_weights(buffers[0], n, k);
    const float *x = (const float *)buffers[1];
    float *y = (float *)buffers[2];
    quantised *own = (quantised *)((uint8_t *)team->scratch + team->worker * own_bytes(sizes));
    if (m == 1) {
        const float back = quantise_row(x, k, own);
        multiply_row(team, &w, own, back, y, n);
        return;
    }
    const int64_t groups = ceil_div(n, GROUP);
    for (int64_t task; (task = xpu_take(team, 1)) < m * groups;) {
        const int64_t row = task / groups, g = task % groups;
        const float back = quantise_row(x + row * k, k, own);
        multiply_groups(&w, g, 1, own, back, y + row * n, n);
    }
}
