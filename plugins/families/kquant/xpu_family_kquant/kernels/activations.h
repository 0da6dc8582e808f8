/* Rows of x on their way into the kernels: widened to float, made finite and near 1, then (8-bit paths)
 * quantised.
 *
 * Every row is first multiplied by a power of two that brings its largest magnitude into [1, 2); the
 * result is multiplied back. Both are exact, and so huge values cannot overflow midway, denormal ones
 * cannot vanish, and a row that holds a NaN or an infinity can be given the factor NaN: its whole output
 * row is then non-finite, while the arithmetic sees zeros and no other row is touched.
 */
#ifndef KQUANT_ACTIVATIONS_H
#define KQUANT_ACTIVATIONS_H

#include "lanes.h"

/* What x consists of, and LANES of it as floats. */
#if defined(XPU_X_FLOAT16)
typedef uint16_t activation;
INLINE vf load_x(const activation *x) { return load_half((const uint8_t *)x); }
#elif defined(XPU_X_BFLOAT16)
typedef uint16_t activation;
INLINE vf load_x(const activation *x)
{
    vh h;
    memcpy(&h, x, sizeof h);
    return (vf)(__builtin_convertvector(h, vu) << 16);
}
#else
typedef float activation;
INLINE vf load_x(const activation *x) { return *(const vf_any *)x; }
#endif

typedef struct row_scale {
    float down; /* x times this has its largest magnitude in [1, 2); 0 for a non-finite row */
    float back; /* the product times this is y */
} row_scale;

INLINE float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The larger of non-negative floats, by their bits: their order as integers is the same, NaN on top. */
INLINE vi larger(vi a, vi b)
{
    const vi is_greater = a > b;
    return (a & is_greater) | (b & ~is_greater);
}

INLINE vi magnitude(vf v) { return (vi)v & 0x7fffffff; }

INLINE uint32_t largest_lane(vi v)
{
    int32_t largest = 0;
    for (int i = 0; i < LANES; ++i) largest = v[i] > largest ? v[i] : largest;
    return (uint32_t)largest;
}

static inline row_scale scale_of_row(const activation *x, int64_t k)
{
    vi top = {0};
    for (int64_t i = 0; i < k; i += LANES) top = larger(top, magnitude(load_x(x + i)));
    const uint32_t largest = largest_lane(top);
    if (largest >= 0x7f800000u) return (row_scale){0.0f, float_of(0x7fc00000u)};
    if (largest == 0) return (row_scale){1.0f, 1.0f};
    /* Exponent fields 2..252 have normal reciprocals; beyond, the largest lands in [2, 8) or below 1. */
    uint32_t exponent = largest >> 23;
    exponent = exponent < 2 ? 2 : exponent > 252 ? 252 : exponent;
    return (row_scale){float_of((254 - exponent) << 23), float_of(exponent << 23)};
}

/* x times the row's factor; a non-finite row becomes zeros, although NaN times 0 is NaN. */
INLINE vf scaled(const activation *x, row_scale s)
{
    const vf zero = {0};
    if (s.down == 0.0f) return zero;
    return load_x(x) * s.down;
}

/* 256 activations in 8 bits, a scale per 32. */
typedef struct quantised {
    int8_t q[BLOCK_K];
    float scale[8];     /* of each span of 32 */
    float sum[8];       /* scale times the sum of q over the span, for the mins */
    int32_t minus32[16];/* -32 times the sum of q over each 16, where Q6_K's dot product starts */
} quantised;

static inline void quantise_span(const activation *x, row_scale row, int span, quantised *out)
{
    float values[32] __attribute__((aligned(64)));
    vi top = {0};
    for (int i = 0; i < 32; i += LANES) {
        const vf v = scaled(x + i, row);
        *(vf *)(values + i) = v;
        top = larger(top, magnitude(v));
    }
    const float largest = float_of(largest_lane(top));
    const float inverse = largest > 0x1p-100f ? 127.0f / largest : 0.0f;
    int32_t sums[2] = {0, 0};
    for (int i = 0; i < 32; ++i) {
        /* Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits. */
        const float shifted = values[i] * inverse + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &shifted, 4);
        out->q[span * 32 + i] = (int8_t)(bits - 0x4b400000);
        sums[i / 16] += bits - 0x4b400000;
    }
    out->scale[span] = largest / 127.0f;
    out->sum[span] = out->scale[span] * (float)(sums[0] + sums[1]);
    out->minus32[2 * span] = -32 * sums[0];
    out->minus32[2 * span + 1] = -32 * sums[1];
}

/* A row to blocks that lie `stride` apart. */
static inline float quantise_row(const activation *x, int64_t k, quantised *out, int64_t stride)
{
    const row_scale row = scale_of_row(x, k);
    for (int64_t b = 0; b < k / BLOCK_K; ++b)
        for (int span = 0; span < 8; ++span)
            quantise_span(x + b * BLOCK_K + span * 32, row, span, out + b * stride);
    return row.back;
}

#endif
