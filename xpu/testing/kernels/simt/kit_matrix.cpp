/* y (16, 16) = a (16, k) times the transpose of b (16, k), by cooperative matrices of one wave.
 * XPU_KIND: 0 multiplies 8-bit integers, 1 half, 2 bfloat16. The numbers are small whole ones,
 * which all three hold exactly. */
#include "xpu_simt.h"

#if XPU_KIND == 1
using element = xpu::half;
using sum = float;
#elif XPU_KIND == 2
using element = xpu::bfloat16;
using sum = float;
#else
using element = int8_t;
using sum = int32_t;
#endif

static inline element made(int8_t v)
{
#if XPU_KIND
    return xpu::from_float<element>((float)v);
#else
    return v;
#endif
}

XPU_KERNEL(xpu::global<const int8_t> a, xpu::global<const int8_t> b, xpu::global<int32_t> y, int64_t k)
{
    XPU_SHARED(element, left, 256);
    XPU_SHARED(element, right, 256);
    xpu::accumulator<sum, 16, 16, 16> c;
    xpu::fill(c, (sum)0);
    for (int64_t at = 0; at < k; at += 16) {
        for (int i = xpu::thread(); i < 256; i += xpu::threads()) {
            const int8_t one = a[i / 16 * k + at + i % 16], other = b[i / 16 * k + at + i % 16];
            left[i] = made(one);
            right[i] = made(other);
        }
        xpu::barrier();
        if (xpu::wave() == 0) {
            xpu::matrix_a<element, 16, 16, 16> rows;
            xpu::matrix_b<element, 16, 16, 16> columns;
            xpu::load(rows, left, 0, 16);
            xpu::load(columns, right, 0, 16);
            xpu::multiply(c, rows, columns);
        }
        xpu::barrier();
    }
    if (xpu::wave() == 0)
        for (int i = 0; i < c.count; ++i) y[c.row(i) * 16 + c.column(i)] = (int32_t)c[i];
}
