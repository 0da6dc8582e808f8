/* Matrix product of activations and prepared K-quant weights, in tiles: y (m, n) = x (m, k) W (n, k)^T.
 *
 * buffers: prepared weights, staged x (stage_bytes.cpp, stage_halves.cpp or stage_lines.cpp), y (m, n)
 * sizes:   m, n, k
 * grid:    x: tiles along n, y: tiles along m, z: parts of k; with more than one part, which only a y of
 *          float may have, it has to be zero before the launch, and every part adds its share
 * dynamic shared memory: as each engine says
 *
 *   XPU_WIDEN               the engine: 0 multiplies 8-bit numbers (tile_bytes.h), 1 halves (tile_halves.h), 2 halves
 *                           whose products are asynchronous (tile_lines.h)
 *   XPU_TILE_M, XPU_TILE_N  rows and columns of y of a block, multiples of 16
 *   XPU_UNROLL              rows of matrices that a wave holds, 16 x 16 of halves or 8 x 16 of 8-bit numbers;
 *                           as many columns of them as are left
 *   XPU_STAGES              stages of shared memory: one is multiplied, the others are on their way
 */
#if XPU_WIDEN == 2
#define XPU_SHARED_ALIGNMENT 1024
#endif
#include "results.h"
#include "stored.h"

constexpr int TILE_M = XPU_TILE_M, TILE_N = XPU_TILE_N, TILE_GROUPS = TILE_N / GROUP, STAGES = XPU_STAGES;
constexpr int MATRIX_ROWS = XPU_WIDEN ? 16 : 8;
constexpr int WAVES = XPU_THREADS / XPU_WAVE, MATRICES = TILE_M / MATRIX_ROWS * TILE_GROUPS / WAVES;
constexpr int DOWN = XPU_UNROLL < MATRICES ? XPU_UNROLL : MATRICES, ACROSS = MATRICES / DOWN;
constexpr int WAVES_DOWN = TILE_M / MATRIX_ROWS / DOWN, WAVES_ACROSS = WAVES / WAVES_DOWN;
static_assert(WAVES_DOWN * DOWN * MATRIX_ROWS == TILE_M && WAVES_ACROSS * ACROSS * GROUP == TILE_N,
              "the waves of a block share its tile evenly");
static_assert(STAGES >= 2, "a stage is on its way while one is multiplied");

struct tile {
    int64_t row, group; /* of y, its first */
    int64_t m, n, k;
    int64_t first, end; /* blocks of k */
};

#if XPU_WIDEN == 2
#include "tile_lines.h"
#elif XPU_WIDEN
#include "tile_halves.h"
#else
#include "tile_bytes.h"
#endif
constexpr bool IS_TURNED = XPU_WIDEN == 2;

/* Where in its matrix a sum is: rows and columns of y are those of the matrix, or turned round. */
inline int row_of(const tile_sum &place, int e) { return IS_TURNED ? place.column(e) : place.row(e); }
inline int column_of(const tile_sum &place, int e) { return IS_TURNED ? place.row(e) : place.column(e); }

/* The wave's part of the tile begins at `row` of it. */
inline void store_tile(const sums_of_wave &s, const tile &t, const factors &by, const results &y, int row)
{
    const tile_sum place = {};
    int64_t column[ACROSS][tile_sum::count];
    float across[ACROSS][tile_sum::count];
#pragma unroll
    for (int e = 0; e < tile_sum::count; ++e)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            column[j][e] = (by.group + j) * GROUP + column_of(place, e);
            across[j][e] = by.of_column(j, e);
        }
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int e = 0; e < tile_sum::count; ++e) {
            const int64_t r = t.row + row + i * MATRIX_ROWS + row_of(place, e), line = r * t.n;
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) {
                if (r >= t.m || column[j][e] >= t.n) continue;
                store_part(y, line + column[j][e], s.at(i, j, e) * across[j][e] * by.of_row(i, e));
            }
        }
}

XPU_KERNEL(xpu::global<const uint8_t> w, xpu::global<const uint8_t> x, results y, int64_t m, int64_t n, int64_t k)
{
    XPU_DYNAMIC_SHARED(uint8_t, memory);
    const weights stored = open_weights(w, n, k);
    const int64_t part = xpu::block_z(), parts = xpu::grid_z();
    const tile t = {(int64_t)xpu::block_y() * TILE_M, (int64_t)xpu::block_x() * TILE_GROUPS, m, n, k,
                    stored.blocks * part / parts, stored.blocks * (part + 1) / parts};
    const int row = xpu::wave() / WAVES_ACROSS * DOWN * MATRIX_ROWS, group = xpu::wave() % WAVES_ACROSS * ACROSS;
    sums_of_wave s;
    clear(s);
    multiply_tile(s, memory, t, stored, x, row, group);
    store_tile(s, t, factors(memory, t, stored, x, row, group), y, row);
}
