/* The three K-quant formats, and the prepared layout that every kernel of this folder reads.
 *
 * Source of the raw blocks: the GGUF K-quant formats, drawn in ../blocks.h:
 *   weight = d * scale * q - dmin * min       (Q4_K, Q5_K; 8 sub-blocks of 32)
 *   weight = d * scale * (q - 32)             (Q6_K;      16 sub-blocks of 16)
 *
 * Prepared: 16 weight rows (columns of the product) form a group. A block of a group holds 256 k of them,
 * in four quarters of 64; a quarter in two runs of 32, a run in two parts of 16, a part in four words of 4 k.
 * Word t of a part is what one lane takes of a column, so the words of 8 columns stand side by side:
 *
 *   head      16 bytes for each column. (Q4_K, Q5_K) d and dmin in half, then 3 words with a byte for each
 *             quarter: the low six bits are scale of run 0, scale of run 1, min of run 0; the upper two
 *             bits of the three together min of run 1, lowest first. (Q6_K) the 16 int8 scales.
 *   high      (Q5_K) [pair of quarters][eight columns][column][t]: bit 4 (quarter % 2) + 2 run + part of
 *             byte i is the fifth bit of k = 4 t + i of that part.
 *             (Q6_K) [quarter][eight columns][column][t]: two bits from 2 (2 run + part) on.
 *   nibbles   [quarter][part][eight columns][column][t]: byte i has q of run 0, k = 4 t + i of the part, in
 *             its low nibble and of run 1 in its high one.
 *
 *   Q4_K, 2304 bytes: head | nibbles        Q5_K, 2816 bytes, Q6_K, 3328 bytes: head | high | nibbles
 *
 *   buffer: [group][k block][block bytes]
 *           (Q6_K) [group][k block][16] d in half
 *           [group][16] float: a power of two that brings the column's largest weight near 1
 *
 * Padded columns are zero weights.
 */
#ifndef KQUANT_STORED_H
#define KQUANT_STORED_H

#include "xpu_simt.h"

constexpr int BLOCK_K = 256, GROUP = 16, QUARTERS = 4, QUARTER_K = 64;

#if defined(XPU_FORMAT_Q4_K)
constexpr int RAW_BYTES = 144, RAW_SCALES = 4, RAW_LOW = 16;
constexpr int STORED_BYTES = 2304, HIGH_BITS = 0, TAIL_BYTES = 0, SUB_K = 32;
#elif defined(XPU_FORMAT_Q5_K)
constexpr int RAW_BYTES = 176, RAW_SCALES = 4, RAW_HIGH = 16, RAW_LOW = 48;
constexpr int STORED_BYTES = 2816, HIGH_BITS = 1, TAIL_BYTES = 0, SUB_K = 32;
#elif defined(XPU_FORMAT_Q6_K)
constexpr int RAW_BYTES = 210, RAW_SCALES = 192, RAW_HIGH = 128, RAW_D = 208;
constexpr int STORED_BYTES = 3328, HIGH_BITS = 2, TAIL_BYTES = 32, SUB_K = 16;
#else
#error "compile with one of XPU_FORMAT_Q4_K, XPU_FORMAT_Q5_K, XPU_FORMAT_Q6_K"
#endif

constexpr bool HAS_MINS = TAIL_BYTES == 0;
constexpr int AT_HIGH = 256, AT_LOW = 256 + 512 * HIGH_BITS;
constexpr int SUBS = BLOCK_K / SUB_K;

using bytes = xpu::global<const uint8_t>;
using four_words = xpu::vec<uint32_t, 4>;
using four_floats = xpu::vec<float, 4>;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The prepared matrix, and where in it a block of a group lies. */
struct weights {
    bytes all;
    int64_t groups, blocks;

    int64_t block(int64_t group, int64_t b) const { return (group * blocks + b) * STORED_BYTES; }
    int64_t tail(int64_t group, int64_t b) const
    {
        return groups * blocks * STORED_BYTES + (group * blocks + b) * TAIL_BYTES;
    }
    int64_t factors(int64_t group) const { return tail(groups, 0) + group * GROUP * 4; }
};

inline weights open_weights(bytes all, int64_t n, int64_t k) { return weights{all, ceil_div(n, GROUP), k / BLOCK_K}; }

/* Where word `t` of a column stands among those of its group. */
inline int place_of(int column, int t) { return column / 8 * 128 + column % 8 * 16 + t * 4; }

/* Words of a block that begins at byte `block` of global or shared memory. The nibbles of both runs: k is
 * within a run, a multiple of 4. */
template <class Memory> inline uint32_t load_low(const Memory &from, int64_t block, int quarter, int column, int k)
{
    return from.template load<uint32_t>(block + (AT_LOW + quarter * 512 + k / 16 * 256 + place_of(column, k % 16 / 4)));
}

/* The bits above the nibbles of a quarter (Q5_K: of a pair of them), for k % 16 / 4 = t of all its parts. */
template <class Memory> inline uint32_t load_high(const Memory &from, int64_t block, int quarter, int column, int t)
{
    if (HIGH_BITS == 0) return 0;
    return from.template load<uint32_t>(block + (AT_HIGH + quarter * HIGH_BITS / 2 * 256 + place_of(column, t)));
}

/* The bits of a run's part within such a word, moved down. */
inline uint32_t high_field(uint32_t word, int quarter, int run, int part)
{
    if (HIGH_BITS == 2) return word >> (2 * (2 * run + part)) & 0x03030303u;
    return word >> (quarter % 2 * 4 + 2 * run + part) & 0x01010101u;
}

/* Scales and mins of a block for one column. */
struct head {
    four_words word;
    uint32_t d; /* d in the lower half, dmin in the upper one */

    /* Of a sub-block; Q6_K: signed. */
    int scale(int sub) const
    {
        if (!HAS_MINS) return (int)(int8_t)(word[sub / 4] >> (sub % 4 * 8));
        return (int)xpu::byte_of(word[1 + sub % 2] & 0x3f3f3f3fu, sub / 2); /* masked once for four */
    }
    /* Mins of run 0 and of run 1, a byte for each quarter. */
    uint32_t even_mins() const { return word[3] & 0x3f3f3f3fu; }
    uint32_t odd_mins() const
    {
        return (word[1] >> 6 & 0x03030303u) | (word[2] >> 4 & 0x0c0c0c0cu) | (word[3] >> 2 & 0x30303030u);
    }
    float d_value() const { return xpu::to_float(xpu::half{(uint16_t)d}); }
    float dmin_value() const { return xpu::to_float(xpu::half{(uint16_t)(d >> 16)}); }
};

/* `tail` is where the block's own part of the tail begins. */
template <class Memory> inline head load_head(const Memory &from, int64_t block, int64_t tail, int column)
{
    head h;
    h.word = from.template load<four_words>(block + column * 16);
    if (HAS_MINS) h.d = h.word[0];
    else h.d = from.template load<uint16_t>(tail + column * 2);
    return h;
}

#endif
