/* A few rows of x times prepared K-quant weights in one launch: batched decode, m = 1 to 8.
 *
 * buffers: prepared weights, x (m, k) (16-byte aligned), y (m, n)          sizes: m, n, k
 * grid:    x: portions of XPU_ROWS groups of 16 columns, y: portions of XPU_COLS rows of x
 *
 *   XPU_COLS  rows of x that are multiplied with a weight while it is in registers; with fewer of them
 *             than m, weights are read that many times
 *
 * The rest is in vector.h.
 */
#include "xpu_simt.h"
constexpr int ROWS = XPU_COLS;
#include "vector.h"

XPU_KERNEL(xpu::global<const uint8_t> w, xpu::global<const float> x, xpu::global<float> y, int64_t m, int64_t n,
           int64_t k)
{
    XPU_SHARED(uint8_t, memory, ROWS * ROW_BYTES);
    multiply_rows(memory, open_weights(w, n, k), (int64_t)xpu::block_x() * GROUPS, x, y,
                  (int64_t)xpu::block_y() * ROWS, m, n);
}
