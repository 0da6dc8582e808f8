/* Engine: weights dequantised to float32 panels, float32 activations, no integer quantisation.
 *
 * A panel (16 columns, 256 k) is 256 lines: the 16 columns' weights of one k. Activations lie as
 * [k / 256][m][256], so that the rows of a block are a constant number of bytes apart.
 */
#ifndef KQUANT_ENGINE_FLOAT_H
#define KQUANT_ENGINE_FLOAT_H

#include "plain_rows.h"

enum { ROW_STEP = 1, PANEL_BYTES = BLOCK_K * LINE };

static inline int64_t act_row_bytes(int64_t k) { return k * (int64_t)sizeof(float); }

static inline float take_row(uint8_t *rows, int64_t row, int64_t padded_m, const activation *x, int64_t k)
{
    const row_scale scale = scale_of_row(x, k);
    for (int64_t i = 0; i < k; i += LANES)
        *(vf *)((float *)rows + (i / BLOCK_K * padded_m + row) * BLOCK_K + i % BLOCK_K) = scaled(x + i, scale);
    return scale.back;
}

/* The weights of 4 k, whose q stand in the bytes of `q`, to 4 lines. */
INLINE void widen_line(vu q, vf scale, vf minimum, uint8_t *out)
{
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte) {
        const vi value = (vi)((q >> (8 * byte)) & 0xff) - (HAS_MINS ? 0 : 32);
        *(vf *)(out + byte * LINE) = to_float(value) * scale - minimum;
    }
}

static void decode_panel(const weights *w, int64_t group, int64_t block, uint8_t *panel)
{
    const uint8_t *stored = stored_block(w, group, block);
    for (int slice = 0; slice < SLICES; ++slice) {
        float scales[SUBS * LANES] __attribute__((aligned(64))), mins[SUBS * LANES] __attribute__((aligned(64)));
        memset(mins, 0, sizeof mins);
        decode_scales(w, group, block, slice, scales, mins, LANES);
#pragma GCC unroll 4
        for (int quarter = 0; quarter < 4; ++quarter)
            for (int r = 0; r < 8; ++r) {
                const int a = low_span(quarter) * 32 + r * 4, b = high_span(quarter) * 32 + r * 4;
                const int sub_a = a / SUB_K * LANES, sub_b = b / SUB_K * LANES;
                uint8_t *out = panel + slice * LANES * 4;
                vu low, high;
                decode_line(stored, slice, quarter, r, &low, &high);
                widen_line(low, *(vf *)(scales + sub_a), *(vf *)(mins + sub_a), out + a * LINE);
                widen_line(high, *(vf *)(scales + sub_b), *(vf *)(mins + sub_b), out + b * LINE);
            }
    }
}

/* `count` (a constant) rows times one slice of one panel, added to the sums. */
INLINE void multiply_rows(const uint8_t *panel, const float *x, float *sums, int64_t stride, const int count)
{
    vf acc[XPU_UNROLL];
    for (int i = 0; i < count; ++i) acc[i] = *(vf *)(sums + i * stride);
#pragma GCC unroll 4
    for (int j = 0; j < BLOCK_K; ++j) {
        const vf line = *(const vf *)(panel + j * LINE);
#pragma GCC unroll 16
        for (int i = 0; i < count; ++i) acc[i] += line * x[i * BLOCK_K + j];
    }
    for (int i = 0; i < count; ++i) *(vf *)(sums + i * stride) = acc[i];
}

static void multiply_slice(const uint8_t *panel, const float *x, float *sums, int64_t stride, int64_t rows)
{
    int64_t i = 0;
    for (; i + XPU_UNROLL <= rows; i += XPU_UNROLL)
        multiply_rows(panel, x + i * BLOCK_K, sums + i * stride, stride, XPU_UNROLL);
    if (XPU_UNROLL > 4)
        for (; i + 4 <= rows; i += 4)
            multiply_rows(panel, x + i * BLOCK_K, sums + i * stride, stride, XPU_UNROLL > 4 ? 4 : 1);
    for (; i < rows; ++i) multiply_rows(panel, x + i * BLOCK_K, sums + i * stride, stride, 1);
}

static void multiply(const task *t, const panel_run *run, float *sums)
{
    const int64_t stride = t->groups * GROUP;
    if (run->first == 0) memset(sums, 0, (size_t)(t->rows * stride) * sizeof *sums);
    for (int64_t b = 0; b < run->blocks; ++b) {
        const float *x = (const float *)t->acts + ((run->first + b) * t->padded_m + t->row) * BLOCK_K;
        for (int64_t g = 0; g < t->groups; ++g)
            for (int slice = 0; slice < SLICES; ++slice)
                multiply_slice(run->panels + (g * PANEL_BLOCKS + b) * PANEL_BYTES + slice * LANES * 4, x,
                               sums + g * GROUP + slice * LANES, stride, t->rows);
    }
}

#include "panels.h"

#endif
