/* y (m, n) = XPU_FACTOR * (a (m) - b (n)); each thread makes XPU_STEP neighbouring elements. */
#include "xpu_simt.h"
#include "kit_table.h"

XPU_KERNEL(xpu::global<const float> a, xpu::global<const float> b, xpu::global<float> y, int64_t m, int64_t n)
{
    const int64_t first = ((int64_t)xpu::block_x() * xpu::threads() + xpu::thread()) * XPU_STEP;
    for (int64_t i = first; i < first + XPU_STEP && i < m * n; ++i) {
        const float left = a[i / n], right = b[i % n];
        y[i] = kit_table(left, right);
    }
}
