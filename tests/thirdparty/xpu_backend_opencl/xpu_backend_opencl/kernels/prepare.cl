/* Weight preparation. buffers: raw rows (any alignment), prepared; sizes: n, k.
 * Launched without a grid: work-items stride over the units of the prepared array. */
#include "kquant.h"

__attribute__((reqd_work_group_size(64, 1, 1)))
kernel void XPU_ENTRY(global const uchar *raw, global ushort *prepared, long n, long k)
{
    const long blocks = k / BLOCK_K;
    const long count = (n + GROUP - 1) / GROUP * blocks * UNITS * GROUP;
    for (long at = get_global_id(0); at < count; at += get_global_size(0)) {
        const long unit = at / GROUP % UNITS, block = at / (GROUP * UNITS) % blocks;
        const long row = at / (GROUP * UNITS * blocks) * GROUP + at % GROUP;
        ushort value = 0;
        if (row < n) {
            global const uchar *from = raw + ((row * blocks + block) * UNITS + unit) * 2;
            value = (ushort)(from[0] | from[1] << 8);
        }
        prepared[at] = value;
    }
}
