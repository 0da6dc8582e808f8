/* y (n) += x (n); a worker takes XPU_STEP elements at a time. */
#include "xpu_c.h"

XPU_KERNEL
{
    const float *x = buffers[0];
    float *y = buffers[1];
    const int64_t n = sizes[0];
    for (int64_t start; (start = xpu_take(team, XPU_STEP)) < n;)
        for (int64_t i = start; i < n && i < start + XPU_STEP; i++) y[i] += x[i];
}
