/* y (n) = x (n). A worker takes BATCH of t equal parts at a time. */
#include "xpu_c.h"

enum { BATCH = 64 };

XPU_KERNEL
{
    const uint32_t *restrict x = buffers[0];
    uint32_t *restrict y = buffers[1];
    const int64_t n = sizes[0], t = sizes[1], part = n / t;
    for (int64_t start; (start = xpu_take(team, BATCH)) < t;) {
        const int64_t stop = (start + BATCH < t ? start + BATCH : t) * part;
        for (int64_t i = start * part; i < stop; ++i) y[i] = x[i];
    }
}
