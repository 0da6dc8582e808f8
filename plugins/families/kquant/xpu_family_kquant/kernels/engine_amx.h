/* Engine: weights dequantised to bfloat16 panels, bfloat16 activations, matrix tiles (AMX). */
#ifndef KQUANT_ENGINE_AMX_H
#define KQUANT_ENGINE_AMX_H

#include "widen_bf16.h"
#include "amx_blocks.h"

static void decode_panel(const weights *w, int64_t group, int64_t block, uint8_t *panel)
{
    affine a __attribute__((aligned(64)));
    decode_affine(w, group, block, &a);
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; ++quarter) widen_quarter(stored_block(w, group, block), &a, quarter, panel);
}

/* Two panels of 256 k stay in the first-level cache while the activations of all rows pass by. */
static void multiply(const task *t, const panel_run *run, float *sums)
{
    const int64_t row_tiles = ceil_div(t->rows, TILE_ROWS), block_bytes = t->padded_m * act_row_bytes(BLOCK_K);
    for (int64_t b = 0; b < run->blocks; ++b) {
        const uint8_t *x = t->acts + (run->first + b) * block_bytes + t->row / TILE_ROWS * PANEL_BYTES;
        for (int64_t g = 0; g < t->groups; g += 2)
            for (int64_t r = 0; r < row_tiles; r += 2) {
                const tile_block block = {x + r * PANEL_BYTES, run->panels + (g * PANEL_BLOCKS + b) * PANEL_BYTES,
                                          sums + (g * row_tiles + r * 2) * SUM_TILE, run->first + b == 0};
                multiply_block(&block, (int)at_most(2, row_tiles - r), (int)at_most(2, t->groups - g));
            }
    }
}

#include "panels.h"

#endif
