/* y (n) = x (n) and k / 32 times eight dot products of four bytes, of the words a and b: XPU_CHAINS sums
 * a thread, none of which waits for another. */
#include "xpu_simt.h"

XPU_KERNEL(xpu::global<const int32_t> x, xpu::global<const int8_t> a, xpu::global<const int8_t> b,
           xpu::global<int32_t> y, int64_t n, int64_t k)
{
    const int64_t all = (int64_t)xpu::grid_x() * xpu::threads();
    const int64_t first = (int64_t)xpu::block_x() * xpu::threads() + xpu::thread();
    uint32_t left[8], right[8];
    for (int w = 0; w < 8; ++w) {
        left[w] = a.load<uint32_t>(4 * w);
        right[w] = b.load<uint32_t>(4 * w);
    }
    int32_t sum[XPU_CHAINS];
    for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = x[first + j * all];
    for (int64_t i = 0; i < k; i += 32)
        for (int w = 0; w < 8; ++w)
            for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = xpu::dot4(left[w], right[w], sum[j]);
    for (int j = 0; j < XPU_CHAINS; ++j) y[first + j * all] = sum[j];
}
