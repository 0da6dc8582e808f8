/* Engine: activations rounded to half, weights scale * q as exact halves, sums in float.
 *
 * scale * q is a whole number below 2048 (Q6_K: below 4096, where every second one is exact), so only the
 * rounding of x is felt.
 */
#ifndef KQUANT_ENGINE_HALVES_H
#define KQUANT_ENGINE_HALVES_H

#include "panels.h"

/* From here up what half cannot hold is too small to be felt; up to here a half can hold it. */
constexpr float LEAST_TOP = 0x1p-10f, MOST_TOP = 0x1p15f;

using eight_halves = xpu::vec<xpu::half, 8>;
using part_of_x = xpu::matrix_a<xpu::half, 16, 16, 16>;
using part_of_w = xpu::matrix_b<xpu::half, 16, 16, 16>;
using part_sum = xpu::accumulator<float, 16, 16, 16>;

/* The step's share of a row: lane `at` of its team has 4 values of every quarter. */
inline void put_row(const panels &p, int row, const four_floats (&v)[STEP_QUARTERS], int at)
{
#pragma unroll
    for (int i = 0; i < STEP_QUARTERS; ++i) {
        xpu::vec<xpu::half, 4> out;
        float sum = 0.0f;
        for (int e = 0; e < 4; ++e) {
            out[e] = xpu::from_float<xpu::half>(v[i][e]);
            sum += xpu::to_float(out[e]);
        }
        p.x.store<xpu::vec<xpu::half, 4>>(row * LINE_BYTES + (i * QUARTER_K + at * 4) * 2, out);
        if (HAS_MINS) {
            sum = xpu::group_sum<8>(sum);
            if (at % 8 == 0) put_sum(p, row, i * 2 + at / 8, sum);
        }
    }
    if (at == 0) p.x_scale[row] = 1.0f;
}

/* A byte in the mantissa of 2^23 is 2^23 + the byte: an exact float without a conversion. */
inline float float_of_byte(uint32_t word, int i) { return float_of(0x4b000000u | (word >> (8 * i) & 0xff)) - 0x1p23f; }

/* 16 k of one column, of one run; `scale` is that of their sub-block. */
inline void put_quants(const panels &p, int column, int k, const four_words &q, int scale)
{
    const float factor = (float)scale, offset = HAS_MINS ? 0.0f : -32.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        eight_halves out;
        for (int i = 0; i < 8; ++i)
            out[i] = xpu::from_float<xpu::half>((float_of_byte(q[half * 2 + i / 4], i % 4) + offset) * factor);
        p.w.store<eight_halves>(column * LINE_BYTES + (k + half * 8) * 2, out);
    }
}

struct sums_of_wave {
    float total[DOWN][ACROSS][part_sum::count];
    part_sum step[DOWN][ACROSS];
};

inline void multiply_step(sums_of_wave &s, const panels &p, int row, int column)
{
    const xpu::shared<xpu::half> from_x = p.x.as<xpu::half>(), from_w = p.w.as<xpu::half>();
    const int line = LINE_BYTES / 2;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) xpu::fill(s.step[i][j], 0.0f);
#pragma unroll
    for (int k = 0; k < TILE_K; k += 16) {
        part_of_x x[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) xpu::load(x[i], from_x, (row + i * 16) * line + k, line);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            part_of_w w;
            xpu::load(w, from_w, (column + j * 16) * line + k, line);
#pragma unroll
            for (int i = 0; i < DOWN; ++i) xpu::multiply(s.step[i][j], x[i], w);
        }
    }
}

inline float step_sum(const sums_of_wave &s, int i, int j, int e) { return s.step[i][j][e]; }

#endif
