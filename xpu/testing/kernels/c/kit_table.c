/* y (m, n) = XPU_FACTOR * (a (m) - b (n)); a worker takes XPU_STEP elements at a time. */
#include "xpu_c.h"
#include "kit_table.h"

XPU_KERNEL
{
    const float *a = buffers[0], *b = buffers[1];
    float *y = buffers[2];
    const int64_t n = sizes[1], count = sizes[0] * n;
    for (int64_t start; (start = xpu_take(team, XPU_STEP)) < count;)
        for (int64_t i = start; i < count && i < start + XPU_STEP; i++) y[i] = kit_table(a[i / n], b[i % n]);
}
