/* y (t): y[i] is the sum of the i-th of t equal parts of x (n). A worker takes BATCH parts at a time. */
#include "xpu_c.h"

enum { BATCH = 64 };

XPU_KERNEL
{
    const uint32_t *x = buffers[0];
    uint32_t *y = buffers[1];
    const int64_t n = sizes[0], t = sizes[1], part = n / t;
    for (int64_t start; (start = xpu_take(team, BATCH)) < t;)
        for (int64_t i = start; i < t && i < start + BATCH; ++i) {
            const uint32_t *from = x + i * part;
            uint32_t sum = 0;
            for (int64_t j = 0; j < part; ++j) sum += from[j];
            y[i] = sum;
        }
}
