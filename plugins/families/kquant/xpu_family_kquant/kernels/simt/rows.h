/* What both kinds of kernel know of a row of x: its largest magnitude, and the power of two it is
 * multiplied by.
 *
 * Activations are taken as they are. Only when a row has turned out to be too large or too small for the
 * arithmetic (its largest magnitude is seen on the way) is everything done once more, the row multiplied by
 * a power of two that brings that magnitude into [1, 2). Both are exact, so huge values cannot overflow
 * midway and tiny ones cannot vanish, and a usual row costs nothing for it.
 * A row that holds a NaN or an infinity gives a row of y that is not finite and touches no other.
 */
#ifndef KQUANT_ROWS_H
#define KQUANT_ROWS_H

#include "xpu_simt.h"

constexpr float LARGEST_FLOAT = 0x1.fffffep127f;

inline float float_of(uint32_t bits)
{
    union { uint32_t bits; float value; } both;
    both.bits = bits;
    return both.value;
}

inline uint32_t bits_of(float value)
{
    union { float value; uint32_t bits; } both;
    both.value = value;
    return both.bits;
}

/* Exponent fields 2..252 have normal reciprocals; beyond, the largest lands in [2, 8) or below 1. */
inline uint32_t exponent_of(float top) { return xpu::max(2u, xpu::min(252u, bits_of(top) >> 23)); }
inline float down_for(float top) { return float_of((254u - exponent_of(top)) << 23); }
inline float up_for(float top) { return float_of(exponent_of(top) << 23); }

/* Whether a row whose largest magnitude is `top` has to be scaled. */
inline bool is_outside(float top, float least, float most)
{
    return top > 0.0f && top <= LARGEST_FLOAT && (top < least || top > most);
}

inline float largest_of(const xpu::vec<float, 4> &v)
{
    return xpu::max(xpu::max(xpu::abs(v[0]), xpu::abs(v[1])), xpu::max(xpu::abs(v[2]), xpu::abs(v[3])));
}

/* The largest of a team of W neighbouring lanes; NaN when any is. All lanes of the wave take part. */
template <int W> inline float team_max(float v)
{
#pragma unroll
    for (int mask = W / 2; mask; mask /= 2) v = xpu::max(v, xpu::shuffle_xor(v, mask));
    return v;
}

/* Four activations in 8 bits. `top` is the largest magnitude of those that share the scale. */
struct quantised {
    uint32_t word;
    int sum;
    float scale; /* not finite when top is not; the numbers are 0 then, and the products NaN */
};

inline quantised quantise(const xpu::vec<float, 4> &v, float top)
{
    const bool is_sound = top <= LARGEST_FLOAT;
    const float inverse = is_sound && top > 0x1p-100f ? 127.0f / top : 0.0f;
    quantised out = {0, 0, top / 127.0f};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int q = xpu::round_to_int(is_sound ? v[i] * inverse : 0.0f);
        out.word |= (uint32_t)(q & 0xff) << (8 * i);
        out.sum += q;
    }
    return out;
}

#endif
