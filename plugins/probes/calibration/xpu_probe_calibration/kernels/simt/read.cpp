/* y (t): y[i] is the sum of every t-th four words of x (n), from the i-th on. Neighbouring threads read
 * neighbouring words; XPU_DEPTH reads of each are on their way before the first answer is needed. */
#include "xpu_simt.h"

using four = xpu::vec<uint32_t, 4>;

static inline uint32_t added(const four &v)
{
    uint32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += v[i];
    return sum;
}

XPU_KERNEL(xpu::global<const uint32_t> x, xpu::global<uint32_t> y, int64_t n, int64_t t)
{
    const int64_t at = (int64_t)xpu::block_x() * xpu::threads() + xpu::thread();
    const int64_t rounds = n / (4 * t);
    uint32_t sum = 0;
    int64_t r = 0;
    for (; r + XPU_DEPTH <= rounds; r += XPU_DEPTH) {
        four v[XPU_DEPTH];
        for (int d = 0; d < XPU_DEPTH; ++d) v[d] = x.load<four>(4 * (at + (r + d) * t));
        for (int d = 0; d < XPU_DEPTH; ++d) sum += added(v[d]);
    }
    for (; r < rounds; ++r) sum += added(x.load<four>(4 * (at + r * t)));
    y[at] = sum;
}
