/* at[0] goes k steps along the chain `next`: each read needs the answer of the one before. */
#include "xpu_c.h"

XPU_KERNEL
{
    const uint32_t *next = buffers[0];
    uint32_t *at = buffers[1];
    if (xpu_take(team, 1) != 0) return;
    uint32_t place = at[0];
    for (int64_t i = 0; i < sizes[1]; ++i) place = next[place];
    at[0] = place;
}
