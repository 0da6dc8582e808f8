/* Activations in 8 bits, as they are staged: each row with its largest magnitude below 8; the rows of a block stand
 * side by side.
 *
 *   [k block][row] 256 bytes  q, [quarter][t][run][part] words: 4 k from 4 t on
 *   [k block][row] SUBS half  sums over the sub-blocks, times SUM_SCALE, rounded; SUBS half what that left
 *   [k block][row] 4 float    the scale of each quarter
 *   [row] float               what the row's results are multiplied with
 */
#ifndef KQUANT_STAGED_H
#define KQUANT_STAGED_H

#include "rows.h"
#include "stored.h"

constexpr int SUM_K = 2 * SUBS;
constexpr int SUM_BYTES = 2 * SUM_K, SCALE_BYTES = 4 * QUARTERS, RECORD_BYTES = BLOCK_K + SUM_BYTES + SCALE_BYTES;
constexpr float SUM_SCALE = 0x1p7f; /* 32 * 8 * this is below the largest half */

/* Where in the staged activations a row's part of a block is. */
struct staged_x {
    int64_t m, blocks;

    int64_t words(int64_t b, int64_t row) const { return (b * m + row) * BLOCK_K; }
    int64_t sums(int64_t b, int64_t row) const { return words(blocks, 0) + (b * m + row) * SUM_BYTES; }
    int64_t scales(int64_t b, int64_t row) const { return sums(blocks, 0) + (b * m + row) * SCALE_BYTES; }
    int64_t up(int64_t row) const { return scales(blocks, 0) + row * 4; }
};

/* Where a row's words have word `word` (of 8) of run `run` (of 8). */
inline int place_of_word(int run, int word) { return run / 2 * 64 + word % 4 * 16 + run % 2 * 8 + word / 4 * 4; }

/* 8 activations of each of 32 lanes to where a block of a row is staged, if there is one. All lanes of the wave
 * take part. */
inline void stage_block(const xpu::global<uint8_t> &to, const staged_x &x, int64_t b, int64_t row,
                        const four_floats (&v)[2], int lane, bool is_there)
{
    const quantiser by = quantiser_for(team_max<8>(xpu::max(largest_of(v[0]), largest_of(v[1]))));
    const uint32_t first = quantise(v[0], by), second = quantise(v[1], by);
    const int run = lane / 4, word = lane % 4 * 2;
    const int whole = xpu::group_sum<SUB_K / 8>(sum_of_bytes(first) + sum_of_bytes(second));
    const float sum = (float)whole * (by.scale * SUM_SCALE);
    if (!is_there) return;
    to.store<uint32_t>(x.words(b, row) + place_of_word(run, word), first);
    to.store<uint32_t>(x.words(b, row) + place_of_word(run, word + 1), second);
    if (lane % (SUB_K / 8) == 0) {
        const int64_t at = x.sums(b, row) + lane / (SUB_K / 8) * 2;
        const xpu::half rounded = xpu::from_float<xpu::half>(sum);
        to.store<xpu::half>(at, rounded);
        to.store<xpu::half>(at + SUBS * 2, xpu::from_float<xpu::half>(sum - xpu::to_float(rounded)));
    }
    if (lane % 8 == 0) to.store<float>(x.scales(b, row) + lane / 8 * 4, by.scale);
}

#endif
