/* Results as a caller wants them: float, or rounded to half or bfloat16 (to the nearest, ties to even). */
#ifndef KQUANT_RESULTS_H
#define KQUANT_RESULTS_H

#include "lanes.h"

INLINE uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

#if defined(XPU_Y_FLOAT16)
typedef uint16_t result;
INLINE result rounded(float f)
{
    const uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (result)(sign | 0x7e00u);  /* NaN */
    if (magnitude >= 0x477ff000u) return (result)(sign | 0x7c00u); /* 65520 and more are infinite */
    if (magnitude < 0x38800000u) { /* below 2^-14: whole multiples of 2^-24, which a sum with 0.5 rounds to */
        const float sum = __builtin_fabsf(f) + 0.5f;
        return (result)(sign | (bits_of(sum) - 0x3f000000u));
    }
    const uint32_t half_way = 0xfffu + (magnitude >> 13 & 1u);
    return (result)(sign | (magnitude - 0x38000000u + half_way) >> 13);
}
#elif defined(XPU_Y_BFLOAT16)
typedef uint16_t result;
INLINE result rounded(float f)
{
    const uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (result)(bits >> 16 | 0x40u); /* NaN stays one */
    return (result)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#else
typedef float result;
INLINE result rounded(float f) { return f; }
#endif

/* At most GROUP neighbouring results. */
static inline void store_columns(result *y, const float *from, float back, int64_t columns)
{
    result out[GROUP];
    for (int c = 0; c < GROUP; ++c) out[c] = rounded(from[c] * back);
    if (columns >= GROUP) memcpy(y, out, sizeof out);
    else memcpy(y, out, (size_t)columns * sizeof *out);
}

#endif
