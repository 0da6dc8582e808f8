/* One unit of a block (stored.h draws it) in registers: a quarter of four columns, 256 weights. */
#ifndef KQUANT_UNIT_H
#define KQUANT_UNIT_H

#include "stored.h"

constexpr int D_VALUES = HAS_MINS ? 8 : 4;
using d_values = xpu::vec<xpu::half, D_VALUES>;

/* Scales and mins of a unit, a byte for each column: of run 0, then of run 1. */
struct unit_scales {
    uint32_t scale[QUARTER_SUBS];
    uint32_t min[2];
};

inline int signed_byte(uint32_t word, int i) { return (int)(int8_t)(word >> (8 * i)); }

inline unit_scales scales_of(const uint32_t (&word)[SCALE_WORDS])
{
    unit_scales out;
#if defined(XPU_FORMAT_Q6_K)
    for (int i = 0; i < 4; ++i) out.scale[i] = word[i];
    out.min[0] = out.min[1] = 0;
#else
    for (int i = 0; i < 2; ++i) out.scale[i] = word[i] & 0x3f3f3f3fu;
    out.min[0] = word[2] & 0x3f3f3f3fu;
    out.min[1] = (word[0] >> 6 & 0x03030303u) | (word[1] >> 4 & 0x0c0c0c0cu) | (word[2] >> 2 & 0x30303030u);
#endif
    return out;
}

/* The bits above the nibbles of one run, for lines 4 part to 4 part + 3 at least. */
inline int high_line(int run, int part) { return HIGH_LINES == 4 ? run * 2 + part : run; }

/* q of the four k of one line and run, as bytes. `high` is the word of high_line(run, line / 4). */
inline uint32_t quants(uint32_t low, uint32_t high, int run, int line)
{
    const uint32_t nibbles = (run ? low >> 4 : low) & 0x0f0f0f0fu;
#if defined(XPU_FORMAT_Q5_K)
    return nibbles | ((line < 4 ? high << (4 - line) : high >> (line - 4)) & 0x10101010u);
#elif defined(XPU_FORMAT_Q6_K)
    const int field = line % 4;
    return nibbles | ((field < 2 ? high << (4 - 2 * field) : high >> (2 * field - 4)) & 0x30303030u);
#else
    return nibbles;
#endif
}

inline four_words load_four(const bytes &from, int64_t block, int line, int unit)
{
    return from.load<four_words>(block + line * 256 + unit * 16);
}

inline d_values load_d(const weights &w, int64_t group, int64_t b, int unit)
{
    if (HAS_MINS) return w.all.load<d_values>(w.block(group, b) + unit % 4 * 16);
    return w.all.load<d_values>(w.tail(group, b) + unit % 4 * 8);
}

inline void load_scale_words(const bytes &from, int64_t block, int unit, uint32_t (&word)[SCALE_WORDS])
{
    for (int i = 0; i < SCALE_WORDS; ++i) word[i] = from.load<uint32_t>(block + AT_SCALES + i * 64 + unit * 4);
}

#endif
