/* One group's block of weights times 8-bit activations: 8 rows of x by 16 columns at a time.
 *
 * A wave multiplies sub-block by sub-block. The whole-number sums of one begin at the bits of UNIT, so that read
 * as floats they are UNIT more: without a conversion they are multiplied by the scale of their sub-block and
 * added up, and what UNIT makes of it is taken off before. Rounding takes less than one from such a sum, far
 * less than the 8 bits of x do, and nothing where all sums are 0.
 * What a weight lacks to its stored q (the mins of Q4_K and Q5_K, the 32 of Q6_K) is a product of its own,
 * mins times sums of x, in halves: a sum of x is written as a half and another one for what that leaves.
 * Activations come staged (staged.h).
 */
#ifndef KQUANT_BYTES_H
#define KQUANT_BYTES_H

#include "ring.h"
#include "staged.h"

constexpr int PARTS = 32 / SUB_K; /* operands to a run */
constexpr int TILE_ROWS = 8;
constexpr float UNIT = 0x1.8p23f; /* a sum is below 2^22, and a scale times this is exact */

using x_part = xpu::matrix_a<int8_t, TILE_ROWS, GROUP, SUB_K>;
using w_part = xpu::matrix_b<int8_t, TILE_ROWS, GROUP, SUB_K>;
using part_sum = xpu::accumulator<int32_t, TILE_ROWS, GROUP, SUB_K>;
using x_sums = xpu::matrix_a<xpu::half, TILE_ROWS, GROUP, SUM_K>;
using w_mins = xpu::matrix_b<xpu::half, TILE_ROWS, GROUP, SUM_K>;
using min_sum = xpu::accumulator<float, TILE_ROWS, GROUP, SUM_K>;
constexpr int SUMS = part_sum::count; /* of a lane */

/* A lane's share of eight rows and a quarter. Words t of both parts and both runs are one piece; the pieces go
 * in the order of an operand of one part. */
using x_place = xpu::matrix_a<int8_t, TILE_ROWS, GROUP, 16>;
struct x_quarter {
    four_words piece[x_place::count];

    x_part operand(int p, int run) const
    {
        x_part a;
        int next[2] = {};
#pragma unroll
        for (int i = 0; i < a.count; ++i) {
            const int part = (p * SUB_K + a.k(i)) / 16;
            a[i] = piece[next[part]++][run * 2 + part];
        }
        return a;
    }
};

/* q of a run, four of them as bytes. */
inline uint32_t quants(uint32_t low, uint32_t high, int quarter, int run, int part)
{
    const uint32_t nibbles = (run ? low >> 4 : low) & 0x0f0f0f0fu;
    return HIGH_BITS ? nibbles | high_field(high, quarter, run, part) << 4 : nibbles;
}

/* Scales and mins of the columns of a lane's sums. */
struct sum_heads {
    head of[SUMS];
};

inline sum_heads load_heads(const slot &w, int64_t at)
{
    const part_sum place = {};
    sum_heads heads;
#pragma unroll
    for (int e = 0; e < SUMS; ++e) heads.of[e] = load_head(w, at, at + STORED_BYTES, place.column(e));
    return heads;
}

/* The scale of a sub-block times d, exactly and without a conversion: a byte within the lower bits of a power
 * of two's float is that much more than it. A signed one is read as 128 more, and stands four bits up, where
 * what both are too much times d still fits a float. */
inline float scale_times(const head &h, int sub, float d)
{
    const int byte = HAS_MINS ? sub / 2 : sub % 4, up = HAS_MINS ? 0 : 4, at = up + byte % 2 * 8;
    const uint32_t word = HAS_MINS ? h.word[1 + sub % 2] : h.word[sub / 4];
    const uint32_t moved = byte < 2 ? word << up : word >> (16 - up), centre = HAS_MINS ? 0 : 128;
    const float power = (float)(1 << (23 - at));
    const uint32_t value = (moved & (HAS_MINS ? 0x3fu : 0xffu) << at) ^ (bits_of(power) | centre << at);
    return xpu::fma(float_of(value), d, -(power + (float)centre) * d);
}

/* What the sums of a column are multiplied with in a quarter, [part][run], and what they begin at. */
struct w_scales {
    float of[2 * PARTS], begin;
};

inline w_scales scales_of(const head &h, int q)
{
    w_scales out;
    float all;
#pragma unroll
    for (int i = 0; i < 2 * PARTS; ++i) {
        out.of[i] = scale_times(h, (q * 2 + i % 2) * PARTS + i / 2, h.d_value());
        all = i ? all + out.of[i] : out.of[i];
    }
    out.begin = all * -UNIT;
    return out;
}

/* A quarter of a group's block, ready to be multiplied with any number of rows. */
struct w_quarter {
    w_part operand[PARTS][2]; /* [][run] */
    w_scales scales[SUMS];
};

inline void load_operands(w_quarter &to, const slot &w, int64_t at, int q)
{
#pragma unroll
    for (int p = 0; p < PARTS; ++p)
#pragma unroll
        for (int i = 0; i < w_part::count; ++i) {
            const int column = to.operand[p][0].column(i), k = p * SUB_K + to.operand[p][0].k(i);
            const uint32_t low = load_low(w, at, q, column, k), high = load_high(w, at, q, column, k % 16 / 4);
            for (int run = 0; run < 2; ++run) to.operand[p][run][i] = quants(low, high, q, run, k / 16);
        }
}

/* total += x times w; `scale` are those of x. */
inline void add_quarter(float (&total)[SUMS], const x_quarter &x, const float (&scale)[SUMS], const w_quarter &w)
{
    float sum[SUMS];
#pragma unroll
    for (int e = 0; e < SUMS; ++e) sum[e] = w.scales[e].begin;
#pragma unroll
    for (int p = 0; p < PARTS; ++p)
#pragma unroll
        for (int run = 0; run < 2; ++run) {
            part_sum c;
            xpu::fill(c, (int32_t)bits_of(UNIT));
            xpu::multiply(c, x.operand(p, run), w.operand[p][run]);
#pragma unroll
            for (int e = 0; e < SUMS; ++e)
                sum[e] = xpu::fma(float_of((uint32_t)c[e]), w.scales[e].of[p * 2 + run], sum[e]);
        }
#pragma unroll
    for (int e = 0; e < SUMS; ++e) total[e] = xpu::fma(sum[e], scale[e], total[e]);
}

/* What is taken off for sub-blocks `sub` and `sub` + 1: their mins, or 32 times their scales. All exact. */
inline uint32_t two_mins(const head &h, int sub)
{
    if (!HAS_MINS) {
        uint32_t word = h.word[0]; /* picked without an index, which would send the words to memory */
        for (int i = 1; i < 4; ++i) word = sub / 4 == i ? h.word[i] : word;
        const uint32_t turned = word >> (sub % 4 * 8) ^ 0x8080u; /* counts from -128 */
        const xpu::half2 biased = {0x64006400u | (turned & 0xffu) | (turned & 0xff00u) << 8};
        return xpu::fma(biased, xpu::half2{0x50005000u}, xpu::half2{0xf880f880u}).bits; /* (h - 1152) * 32 */
    }
    const int at = sub / 2 * 8;
    const xpu::half2 biased = {0x64006400u | (h.even_mins() >> at & 0xffu) | (h.odd_mins() >> at & 0xffu) << 16};
    return xpu::fma(biased, xpu::half2{0x3c003c00u}, xpu::half2{0xe400e400u}).bits; /* h - 1024 */
}

inline w_mins load_mins(const slot &w, int64_t at)
{
    w_mins mins;
#pragma unroll
    for (int i = 0; i < mins.count; ++i)
        mins[i] = two_mins(load_head(w, at, at + STORED_BYTES, mins.column(i)), mins.k(i) % SUBS);
    return mins;
}

/* total -= what the weights of a block lack. */
inline void take_mins(float (&total)[SUMS], const x_sums &x, const w_mins &mins, const sum_heads &heads)
{
    min_sum less;
    xpu::fill(less, 0.0f);
    xpu::multiply(less, x, mins);
#pragma unroll
    for (int e = 0; e < SUMS; ++e) {
        const float d = HAS_MINS ? heads.of[e].dmin_value() : heads.of[e].d_value();
        total[e] = xpu::fma(less[e], d * (-1.0f / SUM_SCALE), total[e]);
    }
}

#endif
