/* Activations as a caller has them: float, half or bfloat16, widened as they are loaded.
 *
 * Loads are of 16 bytes: four floats, or eight of 16 bits. So x begins at a multiple of 16 bytes; so does
 * every row then, k being a multiple of 256.
 */
#ifndef KQUANT_ACTIVATIONS_H
#define KQUANT_ACTIVATIONS_H

#include "xpu_simt.h"

#if defined(XPU_X_FLOAT16)
using activation = xpu::half;
#elif defined(XPU_X_BFLOAT16)
using activation = xpu::bfloat16;
#else
using activation = float;
#endif

using activations = xpu::global<const activation>;

constexpr int AT_ONCE = 16 / (int)sizeof(activation); /* of a load */

/* The largest magnitude of one load; NaN when any is. `at` is a multiple of AT_ONCE. */
inline float largest_at(const activations &x, int64_t at)
{
    const xpu::vec<activation, AT_ONCE> v = x.load<xpu::vec<activation, AT_ONCE>>(at);
    float top = 0.0f;
#pragma unroll
    for (int e = 0; e < AT_ONCE; ++e) top = xpu::max(top, xpu::abs(xpu::to_float(v[e])));
    return top;
}

/* 4 N activations from element `at` on, a multiple of eight, as N is of two. */
template <int N> inline void load_floats(xpu::vec<float, 4> (&to)[N], const activations &x, int64_t at)
{
#pragma unroll
    for (int i = 0; i < 4 * N; i += AT_ONCE) {
        const xpu::vec<activation, AT_ONCE> v = x.load<xpu::vec<activation, AT_ONCE>>(at + i);
#pragma unroll
        for (int e = 0; e < AT_ONCE; ++e) to[(i + e) / 4][(i + e) % 4] = xpu::to_float(v[e]);
    }
}

#endif
