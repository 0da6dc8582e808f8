/* What both kinds of kernel know of a row of x: its largest magnitude, and the power of two it is
 * multiplied by.
 *
 * Where activations are staged, every row is multiplied by such a power first. Where a kernel takes them as
 * they are, only a row that has turned out to be too large or too small for the arithmetic (its largest
 * magnitude is seen on the way) is done once more, multiplied by a power of two that brings that magnitude
 * into [1, 2); a usual row costs nothing for it. Both are exact, so huge values cannot overflow midway and
 * tiny ones cannot vanish.
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

/* One over a power of two. */
inline float power_inverse(float v) { return float_of(0x7f000000u - bits_of(v)); }

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

/* How activations become 8-bit numbers: `top` is the largest magnitude of those that share the scale. */
struct quantiser {
    float inverse, scale; /* the scale is not finite when top is not, and so no product is */
};

inline quantiser quantiser_for(float top)
{
    const bool is_sound = top <= LARGEST_FLOAT;
    return quantiser{is_sound && top > 0x1p-100f ? 127.0f / top : 0.0f, top * (1.0f / 127.0f)};
}

/* Four activations in 8 bits. 1.5 * 2^23 more, a float's lowest byte is the number rounded to nearest; a number
 * that is not finite comes out as anything. */
inline uint32_t quantise(const xpu::vec<float, 4> &v, const quantiser &by)
{
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= (bits_of(xpu::fma(v[i], by.inverse, 0x1.8p23f)) & 0xffu) << (8 * i);
    return word;
}

/* The sum of the four numbers of a word. */
inline int sum_of_bytes(uint32_t word) { return xpu::dot4(word, 0x01010101u, 0); }

#endif
