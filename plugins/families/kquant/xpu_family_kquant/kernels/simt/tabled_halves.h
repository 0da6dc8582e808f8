/* Weights of a group as operands in half, from words and a table of scales, both in shared memory: no lane works out
 * the scales of a column that another one has.
 */
#ifndef KQUANT_TABLED_HALVES_H
#define KQUANT_TABLED_HALVES_H

#include "halves.h"
#include "ring.h"

/* q as a half without a conversion: its bits UP places up in a word are q * 2^(UP - 24), be it subnormal or not, up to
 * where a half's numbers are no longer as far apart. Scales are as much larger, but those of Q6_K, which could be too
 * large then: its weights are a quarter of what they are. */
constexpr int UP = 7 - HIGH_BITS;
constexpr float WEIGHT = HAS_MINS ? 1.0f : 0.25f, LARGER = (float)(1 << (24 - UP)) * WEIGHT;

/* The halves that a wave's weights are made with, scale in the lower bits and offset, for each sub-block of a group:
 * [quarter][column][sub-block]. */
constexpr int QUARTER_SUBS = SUBS / QUARTERS, TABLE = SUBS * GROUP, ENTRIES = GROUP * QUARTER_SUBS;
using sub_halves = xpu::vec<uint32_t, QUARTER_SUBS>;

struct scale_table {
    xpu::shared<uint32_t> memory;
    xpu::shared<const float> of_columns; /* factors */

    /* Those of a quarter of the block that begins at byte `at`, to quarter `to` of the table, by all lanes of the wave:
     * each makes neighbours. Lanes take no branches, so that this is done between products. */
    void make(const slot &from, int at, int quarter, int to) const
    {
        constexpr int each = ENTRIES > XPU_WAVE ? ENTRIES / XPU_WAVE : 1;
        const int first = xpu::lane() * each % ENTRIES, column = first / QUARTER_SUBS, sub = first % QUARTER_SUBS;
        const float factor = of_columns.load<float>(column);
        xpu::vec<uint32_t, each> made;
        if (HAS_MINS) {
            const head h = load_head(from, at, 0, column);
            const uint32_t odd = sub ? 0xffffffffu : 0, mins = (h.odd_mins() & odd) | (h.even_mins() & ~odd);
            const uint32_t scales = ((h.word[2] & odd) | (h.word[1] & ~odd)) & 0x3f3f3f3fu;
            const float scale = h.d_value() * factor * LARGER * (float)(int)xpu::byte_of(scales, quarter);
            const float offset = -(h.dmin_value() * factor) * (float)(int)xpu::byte_of(mins, quarter);
            made[0] = xpu::half2_of(xpu::from_float<xpu::half>(scale), xpu::from_float<xpu::half>(offset)).bits;
        } else {
            const float d = xpu::to_float(from.load<xpu::half>(at + STORED_BYTES + column * 2)) * (factor * LARGER);
            const int place = at + column * 16 + quarter * 4 + sub;
            const uint32_t scales = each == 2 ? from.load<uint16_t>(place) : from.load<uint8_t>(place);
#pragma unroll
            for (int e = 0; e < each; ++e) { /* from -128 on: signed bytes are slow to convert */
                const float whole = (float)(int)((scales >> (8 * e) & 0xffu) ^ 0x80u) - 128.0f;
                const xpu::half scale = xpu::from_float<xpu::half>(d * whole); /* 32 of what it is rounded to make 0 */
                const float offset = xpu::to_float(scale) * (-32.0f * WEIGHT / LARGER);
                made[e] = xpu::half2_of(scale, xpu::from_float<xpu::half>(offset)).bits;
            }
        }
        if (ENTRIES >= XPU_WAVE || xpu::lane() < ENTRIES)
            memory.store<xpu::vec<uint32_t, each>>(to * ENTRIES + first, made);
    }
};

inline uint32_t moved_up(uint32_t word, int up) { return up > 0 ? word << up : word >> -up; }

/* What the operands of a quarter are made of. Of Q5_K the high bits begin with those of the quarter. */
struct quarter_parts {
    quarter_words words;
    sub_halves by[w_step::lines];

    /* The operand of step s. */
    w_step operand(int s) const
    {
        const int run = s / 2, part = s % 2, sub = HAS_MINS ? run : s;
        constexpr uint32_t high_mask = HIGH_BITS == 2 ? 0x00030003u : 0x00010001u;
        w_step f;
#pragma unroll
        for (int i = 0; i < f.count; ++i) {
            const int within = odd_of(f, i) * 8, high = within + HIGH_BITS * (2 * run + part);
            uint32_t q = moved_up(words.low[i][part], UP - within - run * 4) & 0x000f000fu << UP;
            if (HIGH_BITS) q |= moved_up(words.high[i], UP + 4 - high) & high_mask << (UP + 4);
            const uint32_t both = by[f.line(i)][sub];
            f[i] = xpu::fma(xpu::half2{q}, xpu::half2{xpu::twice_of(both, 0)}, xpu::half2{xpu::twice_of(both, 1)}).bits;
        }
        return f;
    }
};

#endif
