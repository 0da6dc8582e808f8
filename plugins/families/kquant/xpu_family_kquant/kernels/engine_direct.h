/* Engine: 8-bit dot products of a few rows, weights decoded in registers.
 *
 * It serves where all rows of a task fit the registers (tile_m <= unroll). With so few, writing a
 * panel out and reading it back would cost as much as the products.
 */
#ifndef KQUANT_ENGINE_DIRECT_H
#define KQUANT_ENGINE_DIRECT_H

#include "dot_rows.h"

enum { ALL_PANELS = 0 };

/* One group times `count` (a constant) rows, of which those beyond `rows` repeat the last one. */
INLINE void multiply_group(const weights *w, int64_t group, const quantised *first, int64_t rows, float *sums,
                           int64_t stride, const int count)
{
    const quantised *x[MOST_ROWS];
    vf acc[MOST_ROWS][SLICES] = {0};
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) x[i] = first + (i < rows ? i : rows - 1) * w->blocks;
    for (int64_t b = 0; b < w->blocks; ++b) add_block(w, group, b, x, count, acc);
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i)
        for (int slice = 0; slice < SLICES; ++slice)
            if (i < rows) *(vf *)(sums + i * stride + slice * LANES) = acc[i][slice];
}

static void compute_tile(const task *t, uint8_t *panels, float *sums)
{
    (void)panels;
    const quantised *x = (const quantised *)t->acts + t->row * t->w->blocks;
    const int64_t stride = t->groups * GROUP;
    for (int64_t g = 0; g < t->groups; ++g, sums += GROUP) {
        if (t->rows <= 1) multiply_group(t->w, t->group + g, x, t->rows, sums, stride, 1);
        else if (t->rows <= 2) multiply_group(t->w, t->group + g, x, t->rows, sums, stride, 2);
        else if (t->rows <= 4) multiply_group(t->w, t->group + g, x, t->rows, sums, stride, 4);
        else multiply_group(t->w, t->group + g, x, t->rows, sums, stride, MOST_ROWS);
    }
}

#endif
