/* The inner loop over matrix tiles: one row tile times 1 to 4 column tiles, 256 k, sums in tiles 0-3.
 * Tile numbers are immediates, hence the written-out cases. */
#ifndef KQUANT_AMX_BLOCKS_H
#define KQUANT_AMX_BLOCKS_H

typedef struct tile_block {
    const uint8_t *x;    /* 8 tiles of activations */
    const uint8_t *w;    /* 8 tiles of weights per group */
    int64_t group_bytes; /* from one group's to the next one's */
    float *sums;         /* a tile per group */
    int is_first;        /* the sums start from 0 */
} tile_block;

enum { SUM_TILE = TILE_ROWS * GROUP };

INLINE void load_sums(const tile_block *b, const int columns)
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
    if (columns > 2) _tile_loadd(2, b->sums + 2 * SUM_TILE, LINE);
    if (columns > 3) _tile_loadd(3, b->sums + 3 * SUM_TILE, LINE);
}

INLINE void store_sums(const tile_block *b, const int columns)
{
    _tile_stored(0, b->sums, LINE);
    if (columns > 1) _tile_stored(1, b->sums + SUM_TILE, LINE);
    if (columns > 2) _tile_stored(2, b->sums + 2 * SUM_TILE, LINE);
    if (columns > 3) _tile_stored(3, b->sums + 3 * SUM_TILE, LINE);
}

INLINE void multiply_tiles(const tile_block *b, const int columns)
{
    load_sums(b, columns);
#pragma GCC unroll 8
    for (int at = 0; at < PANEL_BYTES; at += TILE_BYTES) {
        const uint8_t *w = b->w + at;
        _tile_loadd(4, b->x + at, LINE);
        _tile_loadd(5, w, LINE);
        _tile_dpbf16ps(0, 4, 5);
        if (columns > 1) {
            _tile_loadd(6, w + b->group_bytes, LINE);
            _tile_dpbf16ps(1, 4, 6);
        }
        if (columns > 2) {
            _tile_loadd(7, w + 2 * b->group_bytes, LINE);
            _tile_dpbf16ps(2, 4, 7);
        }
        if (columns > 3) {
            _tile_loadd(5, w + 3 * b->group_bytes, LINE);
            _tile_dpbf16ps(3, 4, 5);
        }
    }
    store_sums(b, columns);
}

static void multiply_block(const tile_block *b, int columns)
{
    switch (columns) {
    case 1: multiply_tiles(b, 1); return;
    case 2: multiply_tiles(b, 2); return;
    case 3: multiply_tiles(b, 3); return;
    default: multiply_tiles(b, 4); return;
    }
}

#endif
