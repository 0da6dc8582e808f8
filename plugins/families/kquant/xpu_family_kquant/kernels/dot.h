/* Sums of one span of 32 k in 8 bits, turned to float32 and scaled: common to both designs. */
#ifndef KQUANT_DOT_H
#define KQUANT_DOT_H

#include "activations.h"
#include "decode.h"

enum { PARTS = 32 / SUB_K, /* sub-blocks, and so integer sums, per span */
       /* Rows of x that add_block takes: their sums should fit 32 or 16 registers. */
       MOST_ROWS = LANES == 16 ? 8 : 4,
       UNROLLED_QUARTERS = LANES == 4 ? 1 : 4 };

/* Where the integer sums of a span start: Q6_K's q count from -32. */
INLINE void start_span(const quantised *x, int span, vi dots[PARTS])
{
    for (int part = 0; part < PARTS; ++part) {
        dots[part] = (vi){0};
        if (!HAS_MINS) dots[part] += x->minus32[span * PARTS + part];
    }
}

/* acc + the span's share of the product; scales and mins as decode_scales leaves them. */
INLINE vf finish_span(vf acc, const vi dots[PARTS], const quantised *x, int span, const float *scales,
                      const float *mins, int stride)
{
    vf sum = to_float(dots[0]) * *(const vf *)(scales + span * PARTS * stride);
    for (int part = 1; part < PARTS; ++part)
        sum += to_float(dots[part]) * *(const vf *)(scales + (span * PARTS + part) * stride);
    acc += sum * x->scale[span];
#if HAS_MINS
    acc -= *(const vf *)(mins + span * stride) * x->sum[span];
#else
    (void)mins;
#endif
    return acc;
}

/* acc + one block of one group times the same block of `rows` (a constant) rows of x, decoded in
 * registers. */
INLINE void add_block(const weights *w, int64_t group, int64_t block, const quantised *x, const int rows,
                      vf (*acc)[SLICES])
{
    const uint8_t *stored = stored_block(w, group, block);
#pragma GCC unroll 1
    for (int slice = 0; slice < SLICES; ++slice) {
        float scales[SUBS * LANES] __attribute__((aligned(64))), mins[SUBS * LANES] __attribute__((aligned(64)));
        decode_scales(w, group, block, slice, scales, mins, LANES);
#pragma GCC unroll UNROLLED_QUARTERS
        for (int quarter = 0; quarter < 4; ++quarter) {
            const int a = low_span(quarter), b = high_span(quarter);
            vi in_a[MOST_ROWS][PARTS], in_b[MOST_ROWS][PARTS];
#pragma GCC unroll 8
            for (int i = 0; i < rows; ++i) {
                start_span(x + i, a, in_a[i]);
                start_span(x + i, b, in_b[i]);
            }
#pragma GCC unroll 8
            for (int r = 0; r < 8; r += 2) {
                const int part = r * 4 / SUB_K;
                vu low[2], high[2];
                decode_line(stored, slice, quarter, r, low, high);
                decode_line(stored, slice, quarter, r + 1, low + 1, high + 1);
#pragma GCC unroll 8
                for (int i = 0; i < rows; ++i) {
                    const int8_t *q = x[i].q + r * 4, *q_a = q + a * 32, *q_b = q + b * 32;
                    in_a[i][part] = dot8(in_a[i][part], low, spread_word(q_a), spread_word(q_a + 4));
                    in_b[i][part] = dot8(in_b[i][part], high, spread_word(q_b), spread_word(q_b + 4));
                }
            }
#pragma GCC unroll 8
            for (int i = 0; i < rows; ++i) {
                acc[i][slice] = finish_span(acc[i][slice], in_a[i], x + i, a, scales, mins, LANES);
                acc[i][slice] = finish_span(acc[i][slice], in_b[i], x + i, b, scales, mins, LANES);
            }
        }
    }
}

#endif
