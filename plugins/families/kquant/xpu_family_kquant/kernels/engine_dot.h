/* Engine: 8-bit dot products. Weights are unpacked to bytes, activations quantised per 32.
 *
 * A panel (16 columns, 256 k) is 64 lines of bytes in the order of the spans of 32, then the scales of
 * every sub-block, then the mins. Sums live in memory between blocks and in registers within one.
 */
#ifndef KQUANT_ENGINE_DOT_H
#define KQUANT_ENGINE_DOT_H

#include "dot_rows.h"

enum { PANEL_SCALES = 64 * LINE, PANEL_MINS = PANEL_SCALES + SUBS * LINE,
       PANEL_BYTES = PANEL_MINS + (HAS_MINS ? SUBS * LINE : 0) };

static void decode_panel(const weights *w, int64_t group, int64_t block, uint8_t *panel)
{
    const uint8_t *stored = stored_block(w, group, block);
    for (int slice = 0; slice < SLICES; ++slice) {
        uint8_t *out = panel + slice * LANES * 4;
        decode_scales(w, group, block, slice, (float *)(out + PANEL_SCALES), (float *)(out + PANEL_MINS), GROUP);
#pragma GCC unroll 4
        for (int quarter = 0; quarter < 4; ++quarter)
#pragma GCC unroll 8
            for (int r = 0; r < 8; ++r)
                decode_line(stored, slice, quarter, r, (vu *)(out + (low_span(quarter) * 8 + r) * LINE),
                            (vu *)(out + (high_span(quarter) * 8 + r) * LINE));
    }
}

/* `count` (a constant) rows times one slice of one panel, added to the sums. */
INLINE void multiply_rows(const uint8_t *panel, const quantised *x, float *sums, int64_t stride, const int count)
{
    const float *scales = (const float *)(panel + PANEL_SCALES), *mins = (const float *)(panel + PANEL_MINS);
    vf acc[XPU_UNROLL];
    for (int i = 0; i < count; ++i) acc[i] = *(vf *)(sums + i * stride);
    for (int span = 0; span < 8; ++span) {
        vi dots[XPU_UNROLL][PARTS];
#pragma GCC unroll 16
        for (int i = 0; i < count; ++i) start_span(x + i, span, dots[i]);
#pragma GCC unroll 8
        for (int r = 0; r < 8; r += 2) {
            const uint8_t *lines = panel + (span * 8 + r) * LINE;
            const vu pair[2] = {*(const vu *)lines, *(const vu *)(lines + LINE)};
#pragma GCC unroll 16
            for (int i = 0; i < count; ++i) {
                const int8_t *q = x[i].q + span * 32 + r * 4;
                vi *dot = &dots[i][r * 4 / SUB_K];
                *dot = dot8(*dot, pair, spread_word(q), spread_word(q + 4));
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < count; ++i)
            acc[i] = finish_span(acc[i], dots[i], x + i, span, scales, mins, GROUP);
    }
    for (int i = 0; i < count; ++i) *(vf *)(sums + i * stride) = acc[i];
}

/* All rows times one slice of one panel. */
static void multiply_slice(const uint8_t *panel, const quantised *x, float *sums, int64_t stride, int64_t rows)
{
    int64_t i = 0;
    for (; i + XPU_UNROLL <= rows; i += XPU_UNROLL)
        multiply_rows(panel, x + i, sums + i * stride, stride, XPU_UNROLL);
    if (XPU_UNROLL > 4)
        for (; i + 4 <= rows; i += 4)
            multiply_rows(panel, x + i, sums + i * stride, stride, XPU_UNROLL > 4 ? 4 : 1);
    for (; i < rows; ++i) multiply_rows(panel, x + i, sums + i * stride, stride, 1);
}

static void multiply(const task *t, const panel_run *run, float *sums)
{
    const int64_t stride = t->groups * GROUP;
    if (run->first == 0) memset(sums, 0, (size_t)(t->rows * stride) * sizeof *sums);
    for (int64_t b = 0; b < run->blocks; ++b)
        for (int64_t g = 0; g < t->groups; ++g)
            for (int slice = 0; slice < SLICES; ++slice)
                multiply_slice(run->panels + (g * PANEL_BLOCKS + b) * PANEL_BYTES + slice * LANES * 4,
                               act_block(t, t->row, run->first + b), sums + g * GROUP + slice * LANES, stride,
                               t->rows);
}

#include "panels.h"

#endif
