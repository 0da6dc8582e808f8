/* Matrix-vector product of prepared K-quant weights: decode, m = 1 (a larger m is a row of blocks each).
 *
 * buffers: prepared weights, x (m, k) (16-byte aligned), y (m, n)          sizes: m, n, k
 * grid:    x: portions of XPU_ROWS groups of 16 columns, y: rows of x
 *
 * Bound by reading the weights once, so members differ in how they ask memory for them: see vector.h.
 */
#include "xpu_simt.h"
constexpr int ROWS = 1;
#include "vector.h"

XPU_KERNEL(xpu::global<const uint8_t> w, xpu::global<const float> x, xpu::global<float> y, int64_t m, int64_t n,
           int64_t k)
{
    XPU_SHARED(uint8_t, memory, ROWS * ROW_BYTES);
    multiply_rows(memory, open_weights(w, n, k), (int64_t)xpu::block_x() * GROUPS, x, y, xpu::block_y(), m, n);
}
