/* The inner loop over matrix tiles: 1 or 2 row tiles times 1 or 2 column tiles, 256 k, sums in tiles 0-3.
 * Tile numbers are immediates, hence the written-out cases. */
#ifndef KQUANT_AMX_BLOCKS_H
#define KQUANT_AMX_BLOCKS_H

enum { GROUP_BYTES = PANEL_BLOCKS * PANEL_BYTES };

typedef struct tile_block {
    const uint8_t *x; /* 8 tiles of activations per row tile, one row tile after the other */
    const uint8_t *w; /* 8 tiles of weights per group, GROUP_BYTES apart */
    float *sums;      /* of each row tile: two tiles, for two groups */
    int is_first;     /* the sums start from 0 */
} tile_block;

INLINE void load_sums(const tile_block *b, const int rows, const int columns)
{
    if (b->is_first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, b->sums, LINE);
    if (columns > 1) _tile_loadd(1, b->sums + SUM_TILE, LINE);
    if (rows > 1) _tile_loadd(2, b->sums + 2 * SUM_TILE, LINE);
    if (rows > 1 && columns > 1) _tile_loadd(3, b->sums + 3 * SUM_TILE, LINE);
}

INLINE void store_sums(const tile_block *b, const int rows, const int columns)
{
    _tile_stored(0, b->sums, LINE);
    if (columns > 1) _tile_stored(1, b->sums + SUM_TILE, LINE);
    if (rows > 1) _tile_stored(2, b->sums + 2 * SUM_TILE, LINE);
    if (rows > 1 && columns > 1) _tile_stored(3, b->sums + 3 * SUM_TILE, LINE);
}

INLINE void multiply_tiles(const tile_block *b, const int rows, const int columns)
{
    load_sums(b, rows, columns);
#pragma GCC unroll 8
    for (int at = 0; at < PANEL_BYTES; at += TILE_BYTES) {
        _tile_loadd(6, b->w + at, LINE);
        _tile_loadd(4, b->x + at, LINE);
        _tile_dpbf16ps(0, 4, 6);
        if (columns > 1) {
            _tile_loadd(7, b->w + GROUP_BYTES + at, LINE);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (rows > 1) {
            _tile_loadd(5, b->x + PANEL_BYTES + at, LINE);
            _tile_dpbf16ps(2, 5, 6);
            if (columns > 1) _tile_dpbf16ps(3, 5, 7);
        }
    }
    store_sums(b, rows, columns);
}

static void multiply_block(const tile_block *b, int rows, int columns)
{
    if (rows > 1 && columns > 1) multiply_tiles(b, 2, 2);
    else if (rows > 1) multiply_tiles(b, 2, 1);
    else if (columns > 1) multiply_tiles(b, 1, 2);
    else multiply_tiles(b, 1, 1);
}

#endif
