/* Sums of one span of 32 k in 8 bits, turned to float32 and scaled: common to both designs. */
#ifndef KQUANT_DOT_H
#define KQUANT_DOT_H

#include "activations.h"
#include "decode.h"

enum { PARTS = 32 / SUB_K }; /* sub-blocks, and so integer sums, per span */

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

#endif
