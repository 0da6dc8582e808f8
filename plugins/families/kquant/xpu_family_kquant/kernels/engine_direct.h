/* Engine: 8-bit dot products of a few rows, weights decoded in registers.
 *
 * It serves where all rows of a task fit the registers (tile_m <= unroll). With so few, writing a
 * panel out and reading it back would cost as much as the products.
 */
#ifndef KQUANT_ENGINE_DIRECT_H
#define KQUANT_ENGINE_DIRECT_H

#include "dot_rows.h"

enum { ALL_PANELS = 0 };

/* One group times `count` (a constant) rows, of which the first `rows` are wanted. */
INLINE void multiply_group(const task *t, int64_t group, int64_t row, int64_t rows, float *sums, const int count)
{
    vf acc[MOST_ROWS][SLICES] = {0};
    for (int64_t b = 0; b < t->w->blocks; ++b) add_block(t->w, group, b, act_block(t, row, b), count, acc);
    for (int i = 0; i < rows; ++i)
        for (int slice = 0; slice < SLICES; ++slice)
            *(vf *)(sums + i * t->groups * GROUP + slice * LANES) = acc[i][slice];
}

static void compute_tile(const task *t, uint8_t *panels, float *sums)
{
    (void)panels;
    for (int64_t g = 0; g < t->groups; ++g)
        for (int64_t i = 0; i < t->rows; i += MOST_ROWS) {
            const int64_t group = t->group + g, row = t->row + i, rows = at_most(MOST_ROWS, t->rows - i);
            float *at = sums + (i * t->groups + g) * GROUP;
            if (rows <= 1) multiply_group(t, group, row, rows, at, 1);
            else if (rows <= 2) multiply_group(t, group, row, rows, at, 2);
            else if (rows <= 4 || MOST_ROWS == 4) multiply_group(t, group, row, rows, at, 4);
            else multiply_group(t, group, row, rows, at, MOST_ROWS);
        }
}

#endif
