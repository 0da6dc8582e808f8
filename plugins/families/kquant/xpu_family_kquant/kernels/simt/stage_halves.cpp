/* Activations to halves, before each launch that multiplies them.
 *
 * buffers: x (m, k) (16-byte aligned), staged      sizes: m, k
 * grid:    x: rows
 *
 * staged: [row][k] halves, then [row] float: what the row's results are multiplied with (stage_halves.h).
 */
#include "stage_halves.h"

struct in_rows {
    int64_t k;
    int64_t operator()(int64_t row, int64_t at) const { return row * k + at; }
};

XPU_KERNEL(activations x, xpu::global<uint8_t> staged, int64_t m, int64_t k)
{
    stage_row(x, staged, m, k, in_rows{k});
}
