/* Weights of a group as operands in half: what a lane holds of a quarter, and the words that they come from.
 *
 * A column's weights are multiplied by a power of two (its factor), so that none is too large for half and
 * the usual ones keep all its bits; results are divided by it. q becomes a half by way of 1024 + q, whose
 * bits are those of q under a constant.
 */
#ifndef KQUANT_HALVES_H
#define KQUANT_HALVES_H

#include "stored.h"

constexpr int STEP_K = 16, STEPS = QUARTER_K / STEP_K; /* of a quarter: run 0 part 0, part 1, run 1 part 0, part 1 */

/* Columns of y are those of a product, or its rows where that is turned round. */
#if XPU_WIDEN == 2
using w_step = xpu::matrix_a<xpu::half, GROUP, 16, STEP_K>;
inline int column_of(const w_step &f, int i) { return f.row(i); }
#else
using x_step = xpu::matrix_a<xpu::half, 16, GROUP, STEP_K>;
using w_step = xpu::matrix_b<xpu::half, 16, GROUP, STEP_K>;
inline int column_of(const w_step &f, int i) { return f.column(i); }
#endif
using step_sum = xpu::accumulator<float, 16, GROUP, STEP_K>;

/* What a lane needs of a quarter, as it is stored: of its columns, word t of both parts. */
struct quarter_words {
    uint32_t low[w_step::count][2], high[w_step::count];
};

/* Operand word i is k(i) and k(i) + 1 of a step: t = k(i) % 8 / 2, and of that word's bytes 0 and 2, or 1 and 3. */
inline int word_of(const w_step &f, int i) { return f.k(i) % 8 / 2; }
inline int odd_of(const w_step &f, int i) { return f.k(i) / 8; }

/* A block begins at byte `block` of global or shared memory. */
template <class Memory> inline quarter_words load_quarter(const Memory &from, int64_t block, int quarter)
{
    quarter_words out;
    const w_step f = {};
    /* Counted from a lane's first word, the places of all are the same in every lane: they need no register. */
    const int first = place_of(column_of(f, 0), word_of(f, 0));
    const Memory own = from + (block + first);
#pragma unroll
    for (int i = 0; i < f.count; ++i) {
        const int column = column_of(f, i), t = word_of(f, i);
        for (int part = 0; part < 2; ++part)
            out.low[i][part] = load_low(own, -first, quarter, column, part * 16 + t * 4);
        out.high[i] = load_high(own, -first, quarter, column, t);
    }
    return out;
}

/* What two weights of one sub-block are made with: q * scale + offset, twice in a word. */
struct sub_scale {
    xpu::half2 scale, offset;
};

inline xpu::half2 twice(float v)
{
    const xpu::half h = xpu::from_float<xpu::half>(v);
    return xpu::half2_of(h, h);
}

/* Of the columns that a lane's operand words are of, for each step of a quarter. */
struct quarter_scales {
    sub_scale of[w_step::lines][STEPS];
};

inline quarter_scales scales_of(const head (&heads)[w_step::lines], const float (&factor)[w_step::lines], int quarter)
{
    quarter_scales out;
#pragma unroll
    for (int i = 0; i < w_step::lines; ++i) {
        const float d = heads[i].d_value() * factor[i], dmin = HAS_MINS ? heads[i].dmin_value() * factor[i] : 0.0f;
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const int sub = HAS_MINS ? quarter * 2 + s / 2 : quarter * 4 + s;
            out.of[i][s].scale = twice(d * (float)heads[i].scale(sub));
            if (!HAS_MINS) continue;
            const uint32_t mins = s / 2 ? heads[i].odd_mins() : heads[i].even_mins();
            out.of[i][s].offset = twice(-dmin * (float)(mins >> (quarter * 8) & 63u));
        }
    }
    return out;
}

/* The operand of step s. */
inline w_step operand_of(const quarter_words &w, const quarter_scales &scales, int quarter, int s)
{
    const int run = s / 2, part = s % 2;
    w_step f;
#pragma unroll
    for (int i = 0; i < f.count; ++i) {
        const int shift = odd_of(f, i) * 8 + run * 4;
        uint32_t q = w.low[i][part] >> shift & 0x000f000fu;
        if (HIGH_BITS) q |= (high_field(w.high[i], quarter, run, part) >> (odd_of(f, i) * 8) & 0x00030003u) << 4;
        const xpu::half2 one = {0x3c003c00u}, biased = {q | 0x64006400u};
        const xpu::half2 whole = xpu::fma(biased, one, xpu::half2{HAS_MINS ? 0xe400e400u : 0xe420e420u});
        const xpu::half2 none = {0x80008000u};
        const sub_scale &by = scales.of[f.line(i)][s];
        f[i] = xpu::fma(whole, by.scale, HAS_MINS ? by.offset : none).bits;
    }
    return f;
}

#endif
