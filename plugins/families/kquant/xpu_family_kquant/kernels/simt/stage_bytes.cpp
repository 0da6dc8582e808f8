/* Activations to 8 bits as staged.h has them, before each launch that multiplies them.
 *
 * buffers: x (m, k) (16-byte aligned), staged      sizes: m, k
 * grid:    x: rows
 *
 * A row is brought near 1 by a power of two first, which is exact.
 */
#include "activations.h"
#include "staged.h"

XPU_KERNEL(activations x, xpu::global<uint8_t> staged, int64_t m, int64_t k)
{
    XPU_SHARED(float, tops, XPU_THREADS / 32);
    const int64_t row = xpu::block_x(), blocks = k / BLOCK_K;
    const staged_x to = {m, blocks};
    const int team = xpu::thread() / 32, at = xpu::thread() % 32; /* 32 threads to a record, at any width */
    float top = 0.0f;
#pragma unroll 4
    for (int64_t i = xpu::thread() * AT_ONCE; i < k; i += XPU_THREADS * AT_ONCE)
        top = xpu::max(top, largest_at(x, row * k + i));
    top = team_max<32>(top);
    if (at == 0) tops[team] = top;
    xpu::barrier();
    for (int i = 0; i < XPU_THREADS / 32; ++i) top = xpu::max(top, (float)tops[i]);
    const bool is_small = top > 0.0f && top <= LARGEST_FLOAT;
    const float down = is_small ? down_for(top) : 1.0f;
    for (int64_t b = team; b < ceil_div(blocks, XPU_THREADS / 32) * (XPU_THREADS / 32); b += XPU_THREADS / 32) {
        const bool is_there = b < blocks; /* the lanes of a wave stay together */
        four_floats v[2] = {};
        if (is_there) load_floats(v, x, row * k + b * BLOCK_K + at * 8);
        for (int i = 0; i < 2; ++i)
            for (int e = 0; e < 4; ++e) v[i][e] *= down;
        stage_block(staged, to, b, row, v, at, is_there);
    }
    if (xpu::thread() == 0) staged.store<float>(to.up(row), is_small ? up_for(top) : 1.0f);
}
