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
#include "results.h"

static int64_t own_bytes(const int64_t *sizes)
{
    return (int64_t)sizeof(quantised) * (sizes[2] / BLOCK_K);
}

XPU_SCRATCH { return own_bytes(sizes) * workers; }

static void store_sums(result *y, const vf acc[SLICES], float back, int64_t columns)
{
    float sums[GROUP] __attribute__((aligned(64)));
    for (int slice = 0; slice < SLICES; ++slice) *(vf *)(sums + slice * LANES) = acc[slice];
    store_columns(y, sums, back, columns);
}

/* `count` (a constant) neighbouring groups, side by side. */
INLINE void multiply_groups(const weights *w, int64_t group, const int count, const quantised *x, float back, result *y,
                            int64_t n)
{
    vf acc[XPU_ROWS][1][SLICES] = {0};
    for (int64_t b = 0; b < w->blocks; ++b)
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i) {
            ask_ahead(stored_block(w, group + i, b), XPU_PREFETCH);
            add_block(w, group + i, b, x + b, 1, acc[i]);
        }
    for (int i = 0; i < count; ++i) {
        const int64_t column = (group + i) * GROUP;
        store_sums(y + column, acc[i][0], back, n - column);
    }
}

static void multiply_row(const xpu_team *team, const weights *w, const quantised *x, float back, result *y, int64_t n)
{
    const int64_t groups = ceil_div(n, GROUP);
    /* At least four portions for every worker, so that a small matrix keeps them all busy. */
    const int64_t portion = ceil_div(at_most(XPU_CHUNK, ceil_div(groups, 4 * team->workers)), XPU_ROWS) * XPU_ROWS;
    for (int64_t first; (first = xpu_take(team, portion)) < groups;) {
        const int64_t end = at_most(first + portion, groups);
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
    const activation *x = (const activation *)buffers[1];
    result *y = (result *)buffers[2];
    quantised *own = (quantised *)((uint8_t *)team->scratch + team->worker * own_bytes(sizes));
    if (m == 1) {
        const float back = quantise_row(x, k, own, 1);
        multiply_row(team, &w, own, back, y, n);
        return;
    }
    const int64_t groups = ceil_div(n, GROUP);
    for (int64_t task; (task = xpu_take(team, 1)) < m * groups;) {
        const int64_t row = task / groups, g = task % groups;
        const float back = quantise_row(x + row * k, k, own, 1);
        multiply_groups(&w, g, 1, own, back, y + row * n, n);
    }
}
