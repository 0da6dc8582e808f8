/* Matrix product of activations and prepared K-quant weights, in tiles: y (m, n) = x (m, k) W (n, k)^T.
 *
 * buffers: prepared weights, staged x (XPU_WIDEN: stage_halves.cpp, else stage_bytes.cpp), y (m, n)
 * sizes:   m, n, k
 * grid:    x: tiles along n, y: tiles along m, z: parts of k; with more than one part, which only a y of
 *          float may have, it has to be zero before the launch, and every part adds its share
 * dynamic shared memory: XPU_STAGES times XPU_TILE_M * 144 bytes with XPU_WIDEN, else
 *          XPU_TILE_M * (RECORD_BYTES + 16) + 128 + XPU_TILE_N / 16 * SLOT_BYTES (STAGE_BYTES of tile_bytes.h)
 *
 *   XPU_WIDEN               1 multiplies halves, 0 8-bit numbers
 *   XPU_TILE_M, XPU_TILE_N  rows and columns of y of a block, multiples of 16
 *   XPU_UNROLL              rows of matrices that a wave holds, 16 x 16 of halves or 8 x 16 of 8-bit numbers;
 *                           as many columns of them as are left
 *   XPU_STAGES              stages of shared memory: one is multiplied, the others are on their way
 */
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

#if XPU_WIDEN
#include "tile_halves.h"
#else
#include "tile_bytes.h"
#endif

/* The wave's part of the tile begins at `row` and `group` of it. What is the same for many results is worked out
 * before the first one is stored. */
inline void store_tile(const sums_of_wave &s, const tile &t, const weights &w, const bytes &staged,
                       const results &y, int row, int group)
{
    const tile_sum place = {};
    int64_t column[ACROSS][tile_sum::count];
    float across[ACROSS][tile_sum::count], down[DOWN][tile_sum::count];
#pragma unroll
    for (int e = 0; e < tile_sum::count; ++e) {
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            column[j][e] = (t.group + group + j) * GROUP + place.column(e);
            across[j][e] = column_scale(w, xpu::min(t.group + group + j, w.groups - 1), place.column(e));
        }
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            const int64_t r = t.row + row + i * MATRIX_ROWS + place.row(e);
            down[i][e] = staged.load<float>(row_scale(t, xpu::min(r, t.m - 1)));
        }
    }
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int e = 0; e < tile_sum::count; ++e) {
            const int64_t r = t.row + row + i * MATRIX_ROWS + place.row(e), line = r * t.n;
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) {
                if (r >= t.m || column[j][e] >= t.n) continue;
                store_part(y, line + column[j][e], s.of[i][j][e] * across[j][e] * down[i][e]);
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
    store_tile(s, t, stored, x, y, row, group);
}
