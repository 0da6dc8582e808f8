/* Engine: AMX for at most 32 rows (tile_m <= 32), where decoding weights is most of the work.
 *
 * While the vector unit decodes one block of two groups, the matrix unit multiplies the block before:
 * the two are interleaved quarter by quarter, over two sets of panels. Sums stay in tiles for all of k.
 * The quarter that is multiplied is one ahead of the one that is decoded: a load whose address agrees
 * with that of a pending store in the low 12 bits waits for it, and tiles of the same number do.
 */
#ifndef KQUANT_ENGINE_AMX_FEW_H
#define KQUANT_ENGINE_AMX_FEW_H

#include "widen_bf16.h"

enum { ALL_PANELS = 4 * PANEL_BYTES }; /* [2 sets][2 groups] */

/* A span's tile of weights of one or two groups times one or two row tiles of activations. */
INLINE void multiply_span(const uint8_t *panel, const uint8_t *x, int span, const int row_tiles, const int columns)
{
    const int at = span * TILE_BYTES;
    _tile_loadd(4, x + at, LINE);
    _tile_loadd(6, panel + at, LINE);
    _tile_dpbf16ps(0, 4, 6);
    if (columns > 1) {
        _tile_loadd(7, panel + PANEL_BYTES + at, LINE);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (row_tiles > 1) {
        _tile_loadd(5, x + PANEL_BYTES + at, LINE);
        _tile_dpbf16ps(2, 5, 6);
        if (columns > 1) _tile_dpbf16ps(3, 5, 7);
    }
}

/* Decode block `b` and multiply block `b - 1`, where they exist. */
INLINE void step(const task *t, int64_t group, int64_t b, uint8_t *panels, const int row_tiles, const int columns)
{
    affine a[2] __attribute__((aligned(64)));
    uint8_t *filled = panels + (b - 1) % 2 * 2 * PANEL_BYTES, *next = panels + b % 2 * 2 * PANEL_BYTES;
    const uint8_t *x = t->acts + ((b - 1) * t->padded_m + t->row) * act_row_bytes(BLOCK_K);
    const int decodes = b < t->w->blocks, multiplies = b > 0;
    if (decodes)
        for (int c = 0; c < columns; ++c) decode_affine(t->w, group + c, b, a + c);
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; ++quarter) {
        if (decodes)
            for (int c = 0; c < columns; ++c)
                widen_quarter(stored_block(t->w, group + c, b), a + c, quarter, next + c * PANEL_BYTES);
        if (!multiplies) continue;
        multiply_span(filled, x, low_span((quarter + 1) % 4), row_tiles, columns);
        multiply_span(filled, x, high_span((quarter + 1) % 4), row_tiles, columns);
    }
}

INLINE void multiply_pair(const task *t, int64_t group, uint8_t *panels, float *sums, const int row_tiles,
                          const int columns)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t b = 0; b <= t->w->blocks; ++b) step(t, group, b, panels, row_tiles, columns);
    _tile_stored(0, sums, LINE);
    if (columns > 1) _tile_stored(1, sums + SUM_TILE, LINE);
    if (row_tiles > 1) _tile_stored(2, sums + 2 * SUM_TILE, LINE);
    if (row_tiles > 1 && columns > 1) _tile_stored(3, sums + 3 * SUM_TILE, LINE);
}

static void compute_tile(const task *t, uint8_t *panels, float *sums)
{
    const int64_t row_tiles = ceil_div(t->rows, TILE_ROWS);
    for (int64_t g = 0; g < t->groups; g += 2, sums += row_tiles * 2 * SUM_TILE) {
        const int is_pair = t->groups - g > 1;
        if (row_tiles > 1 && is_pair) multiply_pair(t, t->group + g, panels, sums, 2, 2);
        else if (row_tiles > 1) multiply_pair(t, t->group + g, panels, sums, 2, 1);
        else if (is_pair) multiply_pair(t, t->group + g, panels, sums, 1, 2);
        else multiply_pair(t, t->group + g, panels, sums, 1, 1);
    }
}

#endif
