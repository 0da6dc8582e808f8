/* What the AMX engines have in common: activations and sums as matrix tiles, and the tile configuration.
 *
 * Rows of x are padded to 16 and stored tile by tile, [k / 256][m / 16][8] tiles of 16 rows x 32 k and
 * 1 KiB, so that what one panel meets lies in one piece. Sums are tiles too: [groups / 2][rows / 16][2].
 *
 * Source: Intel's architecture reference for AMX: 8 tiles of at most 16 rows of 64 bytes; TDPBF16PS
 * treats denormals as zero, so what is below 2^-126 vanishes; activations are scaled to about 1.
 */
#ifndef KQUANT_AMX_ROWS_H
#define KQUANT_AMX_ROWS_H

#include "task.h"

enum { TILE_ROWS = 16, ROW_STEP = TILE_ROWS, TILE_K = 32, TILE_BYTES = 1024, SUM_TILE = TILE_ROWS * GROUP,
       PANEL_BYTES = BLOCK_K / TILE_K * TILE_BYTES };

static inline int64_t act_row_bytes(int64_t k) { return k * 2; }

/* Row `row` of `padded_m` into its lines of the tiles; a row beyond m (x is NULL) is zeros. */
static inline float take_row(uint8_t *rows, int64_t row, int64_t padded_m, const activation *x, int64_t k)
{
    uint8_t *out = rows + row / TILE_ROWS * PANEL_BYTES + row % TILE_ROWS * LINE;
    row_scale scale = {0.0f, 0.0f};
    if (x) scale = scale_of_row(x, k);
    for (int64_t i = 0; i < k; i += TILE_K) {
        vf low = {0}, high = {0};
        if (x) {
            low = scaled(x + i, scale);
            high = scaled(x + i + 16, scale);
        }
        uint8_t *line = out + i / BLOCK_K * padded_m * act_row_bytes(BLOCK_K) + i % BLOCK_K / TILE_K * TILE_BYTES;
        _mm512_store_si512(line, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
    }
    return scale.back;
}

/* 16 neighbouring sums of a task. Sums are stored in the order in which they are computed. */
static inline const float *sums_at(const float *sums, int64_t row, int64_t group, int64_t rows, int64_t groups)
{
    (void)groups;
    const int64_t row_tiles = ceil_div(rows, TILE_ROWS);
    return sums + ((group / 2 * row_tiles + row / TILE_ROWS) * 2 + group % 2) * SUM_TILE + row % TILE_ROWS * GROUP;
}

/* Source: the layout that LDTILECFG reads. An own asm statement, since gcc before 13.2 takes only 8 of
 * the 64 bytes for used in its intrinsic and drops the rest of the initialisation as dead. */
typedef struct tile_configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t rows[16];
} tile_configuration;

typedef tile_configuration machine_state;

/* Tiles 0-3: sums, 4-5: activations, 6-7: weights. With fewer than 16 rows in all, a tile instruction
 * takes as many cycles as there are rows.
 *
 * What was configured before is put back at the end: another library of the same process may configure
 * a thread once and count on it for ever after, as ggml's AMX code does. */
static inline void begin(int64_t m, tile_configuration *before)
{
    tile_configuration c = {.palette = 1};
    for (int t = 0; t < 8; ++t) {
        c.line_bytes[t] = LINE;
        c.rows[t] = (uint8_t)(t < 6 ? at_most(m, TILE_ROWS) : TILE_ROWS);
    }
    __asm__ volatile("sttilecfg %0" : "=m"(*before) : : "memory");
    __asm__ volatile("ldtilecfg %0" : : "m"(c) : "memory");
}

static inline void end(const tile_configuration *before)
{
    if (before->palette) __asm__ volatile("ldtilecfg %0" : : "m"(*before) : "memory");
    else __asm__ volatile("tilerelease" : : : "memory");
}

#endif
