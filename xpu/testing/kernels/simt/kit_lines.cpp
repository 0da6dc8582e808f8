/* y (64, 32) = a (64, k) times the transpose of b (32, k), by products with lines that the block shares. Rows of a
 * are filled word by word. XPU_KIND: 1 multiplies half, 2 bfloat16. The numbers are small whole ones, which both hold
 * exactly. */
#define XPU_SHARED_ALIGNMENT 1024
#include "xpu_simt.h"

#if XPU_KIND == 1
using element = xpu::half;
#else
using element = xpu::bfloat16;
#endif

constexpr int ROWS = 64, COLUMNS = 32, STEPS = xpu::line_length / 16;

static inline element made(int8_t v) { return xpu::from_float<element>((float)v); }

XPU_KERNEL(xpu::global<const int8_t> a, xpu::global<const int8_t> b, xpu::global<int32_t> y, int64_t k)
{
    XPU_DYNAMIC_SHARED(element, lines);
    for (int first = xpu::wave() * 16; first < ROWS; first += xpu::threads() / xpu::wave_width * 16) {
        xpu::accumulator<float, 16, 16, 16> c[COLUMNS / 16];
        for (int j = 0; j < COLUMNS / 16; ++j) xpu::fill(c[j], 0.0f);
        for (int64_t at = 0; at < k; at += xpu::line_length) {
            for (int i = xpu::thread(); i < COLUMNS * xpu::line_length; i += xpu::threads()) {
                const int line = i / xpu::line_length, own = i % xpu::line_length;
                lines[xpu::line_place(line, own)] = made(b[line * k + at + own]);
            }
            xpu::publish_lines();
            xpu::barrier();
            xpu::matrix_a<element, 16, 16, 16> rows[STEPS];
            for (int step = 0; step < STEPS; ++step) {
                for (int i = 0; i < rows[step].count; ++i) {
                    const int64_t from = (first + rows[step].row(i)) * k + at + step * 16 + rows[step].k(i);
                    rows[step][i] = made(a[from]).bits | (uint32_t)made(a[from + 1]).bits << 16;
                }
                xpu::multiply_async(c, rows[step], lines, step * 16);
                xpu::multiply_wait<1>();
            }
            xpu::multiply_wait<0>();
            xpu::barrier();
        }
        xpu::multiply_end(c);
        for (int j = 0; j < COLUMNS / 16; ++j)
            for (int i = 0; i < c[j].count; ++i)
                y[(first + c[j].row(i)) * COLUMNS + j * 16 + c[j].column(i)] = (int32_t)c[j][i];
    }
}
