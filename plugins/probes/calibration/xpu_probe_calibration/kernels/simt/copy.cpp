/* y (n) = x (n): every one of t threads copies every t-th four words, XPU_DEPTH of them at a time. */
#include "xpu_simt.h"

using four = xpu::vec<uint32_t, 4>;

XPU_KERNEL(xpu::global<const uint32_t> x, xpu::global<uint32_t> y, int64_t n, int64_t t)
{
    const int64_t at = (int64_t)xpu::block_x() * xpu::threads() + xpu::thread();
    const int64_t rounds = n / (4 * t);
    int64_t r = 0;
    for (; r + XPU_DEPTH <= rounds; r += XPU_DEPTH) {
        four v[XPU_DEPTH];
        for (int d = 0; d < XPU_DEPTH; ++d) v[d] = x.load<four>(4 * (at + (r + d) * t));
        for (int d = 0; d < XPU_DEPTH; ++d) y.store<four>(4 * (at + (r + d) * t), v[d]);
    }
    for (; r < rounds; ++r) y.store<four>(4 * (at + r * t), x.load<four>(4 * (at + r * t)));
}
