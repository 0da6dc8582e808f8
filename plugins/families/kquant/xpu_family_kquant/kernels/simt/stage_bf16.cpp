/* Activations to bfloat16, row by row, before each call of a library that multiplies them.
 *
 * buffers: x (m, k), staged (m, k) bfloat16 (both 16-byte aligned)      sizes: m, k
 * grid:    x: as many as hold a thread for every 8 activations
 *
 * bfloat16 has the exponents of float32, so no row is scaled first.
 */
#include "activations.h"
#include "stored.h"

XPU_KERNEL(activations x, xpu::global<uint8_t> staged, int64_t m, int64_t k)
{
    const int64_t at = ((int64_t)xpu::block_x() * XPU_THREADS + xpu::thread()) * 8;
    if (at >= m * k) return; /* k is a multiple of 8, so nobody has a part of 8 */
    four_words out = {};
    four_floats v[2];
    load_floats(v, x, at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t low = xpu::from_float<xpu::bfloat16>(v[i / 2][i % 2 * 2]).bits;
        out[i] = low | (uint32_t)xpu::from_float<xpu::bfloat16>(v[i / 2][i % 2 * 2 + 1]).bits << 16;
    }
    staged.store<four_words>(at * 2, out);
}
