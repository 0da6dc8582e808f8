/* Engine: 8-bit activations, integer products.
 *
 * A row of x has one scale for a step. Each sub-block is a product of its own, whose sums are multiplied
 * by the sub-block's scale and added up, still as integers: in a block of 256 they stay below 2^28.
 */
#ifndef KQUANT_ENGINE_BYTES_H
#define KQUANT_ENGINE_BYTES_H

#include "panels.h"

/* A row whose largest magnitude is in here keeps clear of overflow and of what float cannot hold. */
constexpr float LEAST_TOP = 0x1p-60f, MOST_TOP = 0x1p64f;

using part_of_x = xpu::matrix_a<int8_t, 16, 16, SUB_K>;
using part_of_w = xpu::matrix_b<int8_t, 16, 16, SUB_K>;
using part_sum = xpu::accumulator<int32_t, 16, 16, SUB_K>;

/* The step's share of a row: lane `at` of its team has 4 values of every quarter. */
inline void put_row(const panels &p, int row, const four_floats (&v)[STEP_QUARTERS], int at)
{
    float top = 0.0f;
    for (int i = 0; i < STEP_QUARTERS; ++i) top = xpu::max(top, largest_of(v[i]));
    top = team_max<16>(top);
    float scale = 0.0f;
#pragma unroll
    for (int i = 0; i < STEP_QUARTERS; ++i) {
        const quantised q = quantise(v[i], top);
        scale = q.scale;
        p.x.store<uint32_t>(row * LINE_BYTES + i * QUARTER_K + at * 4, q.word);
        if (HAS_MINS) {
            const int sum = xpu::group_sum<8>(q.sum);
            if (at % 8 == 0) put_sum(p, row, i * 2 + at / 8, (float)sum);
        }
    }
    if (at == 0) p.x_scale[row] = scale;
}

/* Less 32 in every byte: its sixth bit turned and extended. */
inline uint32_t centred(uint32_t q)
{
    if (HAS_MINS) return q;
    const uint32_t turned = q ^ 0x20202020u, sign = turned & 0x20202020u;
    return turned | sign << 1 | sign << 2;
}

/* 16 k of one column, of one run. */
inline void put_quants(const panels &p, int column, int k, const four_words &q, int)
{
    four_words out;
    for (int i = 0; i < 4; ++i) out[i] = centred(q[i]);
    p.w.store<four_words>(column * LINE_BYTES + k, out);
}

struct sums_of_wave {
    float total[DOWN][ACROSS][part_sum::count];
    int32_t step[DOWN][ACROSS][part_sum::count];
};

inline void clear_step(sums_of_wave &s)
{
    for (int i = 0; i < DOWN; ++i)
        for (int j = 0; j < ACROSS; ++j)
            for (int e = 0; e < part_sum::count; ++e) s.step[i][j][e] = 0;
}

inline void multiply_step(sums_of_wave &s, const panels &p, int row, int column)
{
    clear_step(s);
#pragma unroll
    for (int sub = 0; sub < STEP_SUBS; ++sub) {
        part_of_x x[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) xpu::load(x[i], p.x, (row + i * 16) * LINE_BYTES + sub * SUB_K, LINE_BYTES);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            part_of_w w;
            xpu::load(w, p.w, (column + j * 16) * LINE_BYTES + sub * SUB_K, LINE_BYTES);
            part_sum c;
            int scale[part_sum::count];
#pragma unroll
            for (int e = 0; e < c.count; ++e)
                scale[e] = (int)(int8_t)(uint8_t)p.scale[sub * TILE_N + column + j * 16 + c.column(e)];
#pragma unroll
            for (int i = 0; i < DOWN; ++i) {
                xpu::fill(c, 0);
                xpu::multiply(c, x[i], w);
#pragma unroll
                for (int e = 0; e < c.count; ++e) s.step[i][j][e] += scale[e] * c[e];
            }
        }
    }
}

inline float step_sum(const sums_of_wave &s, int i, int j, int e) { return (float)s.step[i][j][e]; }

#endif
