/* The panels of a tile in shared memory, and what both engines put into them.
 *
 * A step is XPU_TILE_K deep. For it, a block of threads holds XPU_TILE_M rows of x and XPU_TILE_N columns of
 * weights, both running along k, and multiplies them as 16 x 16 matrices. The weights in a panel are whole
 * numbers; what they are scaled with comes to the sums afterwards:
 *
 *   y += d * sum over sub-blocks (scale * q * x) - dmin * sum over sub-blocks (min * sum of x)
 *
 * The second part is a product of 16 x 16 matrices itself. Its operands are halves: 32 * min, which is
 * exact, and the sum of x over a sub-block divided by 32, as a half and another one for what it leaves.
 *
 *      k of the min product   0 .. 7              8 .. 15
 *      of x                   sum / 32            the rest of it
 *      of weights             32 * min            32 * min
 */
#ifndef KQUANT_PANELS_H
#define KQUANT_PANELS_H

#include "rows.h"
#include "unit.h"

constexpr int TILE_M = XPU_TILE_M, TILE_N = XPU_TILE_N, TILE_K = XPU_TILE_K;
constexpr int STEP_QUARTERS = TILE_K / QUARTER_K, STEP_SUBS = TILE_K / SUB_K, BLOCK_STEPS = BLOCK_K / TILE_K;
static_assert(TILE_M % 16 == 0 && TILE_N % GROUP == 0, "a tile is made of 16 x 16 matrices");
static_assert(TILE_K % QUARTER_K == 0 && BLOCK_K % TILE_K == 0, "tile_k is 64, 128 or 256");

/* 16 bytes beyond the data, so that 8 neighbouring rows of 16 bytes lie in different banks. */
constexpr int ELEMENT_BYTES = XPU_WIDEN ? 2 : 1, LINE_BYTES = TILE_K * ELEMENT_BYTES + 16;
constexpr int MIN_K = 16;

struct panels {
    xpu::shared<uint8_t> x, w;           /* [row][LINE_BYTES], [column][LINE_BYTES] */
    xpu::shared<uint8_t> scale;          /* [sub-block][column] */
    xpu::shared<float> d, dmin;          /* [column] */
    xpu::shared<float> x_scale;          /* [row] */
    xpu::shared<xpu::half> sums, mins;   /* [row][MIN_K], [column][MIN_K] */
};

/* The sum of x over one sub-block of the step, as the min product takes it. */
inline void put_sum(const panels &p, int row, int sub, float sum)
{
    const float part = sum * 0x1p-5f;
    const xpu::half high = xpu::from_float<xpu::half>(part);
    p.sums[row * MIN_K + sub] = high;
    p.sums[row * MIN_K + 8 + sub] = xpu::from_float<xpu::half>(part - xpu::to_float(high));
}

/* Steps of less than 8 sub-blocks leave places of the min product unused: they are zeros. */
inline void clear_mins(const panels &p)
{
    for (int i = xpu::thread(); i < TILE_M * MIN_K; i += XPU_THREADS) p.sums[i] = xpu::half{0};
    for (int i = xpu::thread(); i < TILE_N * MIN_K; i += XPU_THREADS) p.mins[i] = xpu::half{0};
}

inline void put_d(const panels &p, const d_values &d, int column)
{
    for (int j = 0; j < 4; ++j) {
        p.d[column + j] = xpu::to_float(d[j]);
        if (HAS_MINS) p.dmin[column + j] = xpu::to_float(d[D_VALUES - 4 + j]);
    }
}

inline void put_mins(const panels &p, uint32_t word, int column, int sub)
{
    for (int j = 0; j < 4; ++j) {
        const xpu::half value = xpu::from_float<xpu::half>(32.0f * (float)signed_byte(word, j));
        p.mins[(column + j) * MIN_K + sub] = value;
        p.mins[(column + j) * MIN_K + 8 + sub] = value;
    }
}

#endif
