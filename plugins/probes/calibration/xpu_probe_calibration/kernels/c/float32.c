/* y (n) = x (n), then k times y = factors[0] * y + factors[1]. A worker keeps XPU_CHAINS vectors of sums
 * in registers, none of which waits for another. */
#include "xpu_c.h"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

/* Aligned to an element: the arrays of a caller are. */
typedef float vf __attribute__((vector_size(LANES * 4), aligned(4)));

XPU_KERNEL
{
    const float *x = buffers[0], *factors = buffers[1];
    float *y = buffers[2];
    const int64_t n = sizes[0], k = sizes[1], span = LANES * XPU_CHAINS;
    const vf factor = factors[0] - (vf){0}, added = factors[1] - (vf){0};
    for (int64_t start; (start = xpu_take(team, span)) < n;) {
        vf sum[XPU_CHAINS];
        for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = *(const vf *)(x + start + j * LANES);
        for (int64_t i = 0; i < k; ++i) {
#pragma GCC unroll 16
            for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = factor * sum[j] + added;
        }
        for (int j = 0; j < XPU_CHAINS; ++j) *(vf *)(y + start + j * LANES) = sum[j];
    }
}
