/* Activations to halves, row by row: what stage_halves.cpp and stage_lines.cpp share.
 *
 * A row is brought near 1 by a power of two first, which is exact. The 16 k of a part stand in the order in which
 * weights come out of their words: place 2 t + j has k = 4 t + 2 j, place 8 + 2 t + j has k = 4 t + 2 j + 1.
 */
#ifndef KQUANT_STAGE_HALVES_H
#define KQUANT_STAGE_HALVES_H

#include "activations.h"
#include "rows.h"
#include "stored.h"

/* The block's row; `place(row, k)` is where its halves from k on are staged, eight of them. Behind all rows is a
 * float for each: what the row's results are multiplied with. */
template <class Place>
inline void stage_row(const activations &x, const xpu::global<uint8_t> &staged, int64_t m, int64_t k,
                      const Place &place)
{
    XPU_SHARED(float, tops, XPU_THREADS / 32);
    const int64_t row = xpu::block_x();
    float top = 0.0f;
#pragma unroll 4
    for (int64_t i = xpu::thread() * AT_ONCE; i < k; i += XPU_THREADS * AT_ONCE)
        top = xpu::max(top, largest_at(x, row * k + i));
    top = team_max<32>(top);
    if (xpu::thread() % 32 == 0) tops[xpu::thread() / 32] = top;
    xpu::barrier();
    for (int i = 0; i < XPU_THREADS / 32; ++i) top = xpu::max(top, (float)tops[i]);
    const bool is_small = top > 0.0f && top <= LARGEST_FLOAT;
    const float down = is_small ? down_for(top) : 1.0f;
    for (int64_t part = xpu::thread(); part < k / 16; part += XPU_THREADS) {
        four_words out[2];
        four_floats v[4];
        load_floats(v, x, row * k + part * 16);
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            xpu::half h[4];
            for (int i = 0; i < 4; ++i) h[i] = xpu::from_float<xpu::half>(v[t][i] * down);
            out[0][t] = xpu::half2_of(h[0], h[2]).bits;
            out[1][t] = xpu::half2_of(h[1], h[3]).bits;
        }
        for (int i = 0; i < 2; ++i) staged.store<four_words>(place(row, part * 16 + i * 8) * 2, out[i]);
    }
    if (xpu::thread() == 0) staged.store<float>(m * k * 2 + row * 4, is_small ? up_for(top) : 1.0f);
}

#endif
