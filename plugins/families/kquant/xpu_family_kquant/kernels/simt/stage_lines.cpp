/* Activations to halves in lines, before each launch that multiplies them.
 *
 * buffers: x (m, k) (16-byte aligned), staged      sizes: m, k
 * grid:    x: rows
 *
 * staged: [k / 64][row] 64 halves as a line of that number, then [row] float: what the row's results are multiplied
 * with (stage_halves.h). So the lines of neighbouring rows are what a block shares (xpu_simt_lines.h), as they stand.
 */
#include "stage_halves.h"

struct in_lines {
    int64_t m;
    int64_t operator()(int64_t row, int64_t at) const
    {
        return (at / QUARTER_K * m + row) * QUARTER_K + xpu::line_place((int)(row % 8), (int)(at % QUARTER_K)) -
               row % 8 * QUARTER_K;
    }
};

XPU_KERNEL(activations x, xpu::global<uint8_t> staged, int64_t m, int64_t k)
{
    stage_row(x, staged, m, k, in_lines{m});
}
