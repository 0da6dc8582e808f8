/* Engine: weights dequantised to bfloat16 panels, bfloat16 activations, matrix tiles (AMX).
 *
 * Rows of x are padded to 16 and stored tile by tile, [k / 256][m / 16][8] tiles of 16 rows x 32 k and
 * 1 KiB, so that what one panel meets lies in one piece. Sums are tiles too: [groups / 2][rows / 16][2].
 * A panel (16 columns, 256 k) is 8 such tiles, one per span of 32; line j of a tile holds, for each of
 * the 16 columns, the weights of k = 2j and 2j + 1 side by side, as the instruction wants them.
 *
 * Source: Intel's architecture reference for AMX: 8 tiles of at most 16 rows of 64 bytes; TDPBF16PS
 * treats denormals as zero, so what is below 2^-126 vanishes; activations are scaled to about 1.
 */
#ifndef KQUANT_ENGINE_AMX_H
#define KQUANT_ENGINE_AMX_H

#include "task.h"

enum { TILE_ROWS = 16, ROW_STEP = TILE_ROWS, TILE_K = 32, TILE_BYTES = 1024, SUM_TILE = TILE_ROWS * GROUP,
       PANEL_BYTES = BLOCK_K / TILE_K * TILE_BYTES };

static inline int64_t act_row_bytes(int64_t k) { return k * 2; }

/* Row `row` of `padded_m` into its lines of the tiles; a row beyond m (x is NULL) is zeros. */
static inline float take_row(uint8_t *rows, int64_t row, int64_t padded_m, const float *x, int64_t k)
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

/* Tiles 0-3: sums, 4-5: activations, 6-7: weights. With fewer than 16 rows in all, a tile instruction takes as many cycles as there are rows.
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

/* The weights of one pair of k, bytes 2 * half and 2 * half + 1 of `q`, as bfloat16 in one line.
 *
 * A byte put into the third byte of 0.5f gives 0.5 + q / 256 without a conversion; the upper halves of
 * two floats are the pair. Both are byte shuffles under a mask. Cutting off the lower halves loses
 * 0.28 % on average, which `scale` and `offset` make up for. */
INLINE __m512i widen_pair(__m512i q, __m512 scale, __m512 offset, const int half)
{
    const __m512i base = _mm512_set1_epi32(0x3f000000);
    const __mmask64 third = 0x4444444444444444ull, lower = 0x3333333333333333ull;
    const __m512i lane = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000);
    const __m512i byte = _mm512_set1_epi32(0x00010000), upper_half = _mm512_set1_epi32(0x00000302);
    const __m512i even = _mm512_mask_shuffle_epi8(base, third, q, lane + byte * (2 * half));
    const __m512i odd = half ? _mm512_mask_shuffle_epi8(base, third, q, lane + byte * 3)
                             : _mm512_mask_shuffle_epi8(base, third, q, lane + byte);
    const __m512 even_weight = _mm512_fmadd_ps((__m512)even, scale, offset);
    const __m512 odd_weight = _mm512_fmadd_ps((__m512)odd, scale, offset);
    return _mm512_mask_shuffle_epi8((__m512i)odd_weight, lower, (__m512i)even_weight, lane + upper_half);
}

INLINE void widen_to_tile(vu q, const float *scales, const float *offsets, int at, uint8_t *panel)
{
    const __m512 scale = _mm512_load_ps(scales + at / SUB_K * LANES);
    const __m512 offset = _mm512_load_ps(offsets + at / SUB_K * LANES);
    uint8_t *out = panel + at / 2 * LINE;
    _mm512_store_si512(out, widen_pair((__m512i)q, scale, offset, 0));
    _mm512_store_si512(out + LINE, widen_pair((__m512i)q, scale, offset, 1));
}

/* 1 + 2^-8 / (2 ln 2): the mean relative loss of cutting a float with evenly spread logarithm to 8 bits. */
#define CUT_LOSS 1.00282f

static void decode_panel(const weights *w, int64_t group, int64_t block, uint8_t *panel)
{
    const uint8_t *stored = stored_block(w, group, block);
    float scales[SUBS * LANES] __attribute__((aligned(64))), mins[SUBS * LANES] __attribute__((aligned(64)));
    decode_scales(w, group, block, 0, scales, mins, LANES);
    for (int i = 0; i < SUBS; ++i) {
        /* (0.5 + q / 256) * 256 s - 128 s - min */
        const vf s = *(vf *)(scales + i * LANES) * CUT_LOSS;
        const vf minimum = HAS_MINS ? *(vf *)(mins + i * LANES) * CUT_LOSS : s * 32.0f;
        *(vf *)(scales + i * LANES) = s * 256.0f;
        *(vf *)(mins + i * LANES) = s * -128.0f - minimum;
    }
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; ++quarter)
#pragma GCC unroll 8
        for (int r = 0; r < 8; ++r) {
            vu low, high;
            decode_line(stored, 0, quarter, r, &low, &high);
            widen_to_tile(low, scales, mins, low_span(quarter) * 32 + r * 4, panel);
            widen_to_tile(high, scales, mins, high_span(quarter) * 32 + r * 4, panel);
        }
}

#include "amx_blocks.h"

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
