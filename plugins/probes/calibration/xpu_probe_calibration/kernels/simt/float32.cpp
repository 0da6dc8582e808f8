/* y (n) = x (n), then k times y = factors[0] * y + factors[1]: XPU_CHAINS sums a thread, none of which
 * waits for another. */
#include "xpu_simt.h"

XPU_KERNEL(xpu::global<const float> x, xpu::global<const float> factors, xpu::global<float> y, int64_t n, int64_t k)
{
    constexpr int AT_ONCE = 16; /* k is a multiple of it */
    const int64_t all = (int64_t)xpu::grid_x() * xpu::threads();
    const int64_t first = (int64_t)xpu::block_x() * xpu::threads() + xpu::thread();
    const float factor = factors[0], added = factors[1];
    float sum[XPU_CHAINS];
    for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = x[first + j * all];
    for (int64_t i = 0; i < k; i += AT_ONCE)
        for (int u = 0; u < AT_ONCE; ++u)
            for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = xpu::fma(factor, sum[j], added);
    for (int j = 0; j < XPU_CHAINS; ++j) y[first + j * all] = sum[j];
}
