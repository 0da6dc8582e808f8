/* y (n) += x (n); each thread makes XPU_STEP neighbouring elements. */
#include "xpu_simt.h"

XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y, int64_t n)
{
    const int64_t first = ((int64_t)xpu::block_x() * xpu::threads() + xpu::thread()) * XPU_STEP;
    for (int64_t i = first; i < first + XPU_STEP && i < n; ++i) {
        const float before = y[i], more = x[i];
        y[i] = before + more;
    }
}
