/* The three K-quant formats, and the prepared layout that every kernel of this folder reads.
 *
 * Source of the raw blocks: the GGUF K-quant formats, drawn in ../blocks.h:
 *   weight = d * scale * q - dmin * min       (Q4_K, Q5_K; 8 sub-blocks of 32)
 *   weight = d * scale * (q - 32)             (Q6_K;      16 sub-blocks of 16)
 *
 * Prepared: 16 weight rows (columns of the product) form a group. A block of a group holds 256 k of
 * them. It is read in 16 units, one lane each: a unit is a quarter (64 k) of four neighbouring columns,
 * and its number is quarter * 4 + four. What the 16 units read at the same time stands side by side:
 *
 *      unit              0 (q 0)      ...      3 (q 0)      4 (q 1)   ...   15 (q 3)
 *      columns        0, 1, 2, 3      ...   12 .. 15      0, 1, 2, 3  ...   12 .. 15
 *
 *   nibbles   8 lines of 256 bytes. Line r, unit u: one word for each of its columns, whose byte i has q
 *             of k = 64 quarter + 4 r + i in its low nibble and of k + 32 in its high one: the operands
 *             of 8-bit dot products. The first is the quarter's run 0, the second its run 1.
 *   fifth     (Q5_K) 2 lines of 256 bytes, one a run: bit r of byte i belongs to line r, byte i.
 *   high      (Q6_K) 4 lines of 256 bytes: run 0 lines 0-3, run 0 lines 4-7, then run 1: bits 2 s and
 *             2 s + 1 of byte i belong to line r = 4 part + s, byte i.
 *   scales    (Q4_K, Q5_K) 3 lines of 64 bytes, a word for each unit, a byte of it for each column. The
 *             low six bits: scale of run 0, scale of run 1, min of run 0. The upper two bits of the
 *             three together: min of run 1, lowest first.
 *             (Q6_K) 4 lines of 64 bytes: the int8 scales of the quarter's four sub-blocks.
 *   d         (Q4_K, Q5_K) 16 bytes for each four of columns: d of the four, dmin of the four, in half.
 *             (Q6_K) 8 bytes for each four, behind all blocks of all groups.
 *
 *   Q4_K, 2304 bytes: d | scales | nibbles
 *   Q5_K, 2816 bytes: d | scales | fifth | nibbles
 *   Q6_K, 3328 bytes: scales | high | nibbles, and 32 bytes of d behind all blocks
 *
 *   buffer: [group][k block][block bytes], then for Q6_K [group][k block][32]
 *
 * Its size is the raw size with n rounded up to 16; padded columns are zero weights.
 */
#ifndef KQUANT_STORED_H
#define KQUANT_STORED_H

#include "xpu_simt.h"

constexpr int BLOCK_K = 256, GROUP = 16, UNITS = 16, QUARTERS = 4, QUARTER_K = 64, LINES = 8;

#if defined(XPU_FORMAT_Q4_K)
constexpr int RAW_BYTES = 144, RAW_SCALES = 4, RAW_LOW = 16;
constexpr int STORED_BYTES = 2304, AT_SCALES = 64, AT_HIGH = 256, AT_LOW = 256;
constexpr int SCALE_WORDS = 3, HIGH_LINES = 0, TAIL_BYTES = 0, SUB_K = 32;
#elif defined(XPU_FORMAT_Q5_K)
constexpr int RAW_BYTES = 176, RAW_SCALES = 4, RAW_HIGH = 16, RAW_LOW = 48;
constexpr int STORED_BYTES = 2816, AT_SCALES = 64, AT_HIGH = 256, AT_LOW = 768;
constexpr int SCALE_WORDS = 3, HIGH_LINES = 2, TAIL_BYTES = 0, SUB_K = 32;
#elif defined(XPU_FORMAT_Q6_K)
constexpr int RAW_BYTES = 210, RAW_SCALES = 192, RAW_HIGH = 128, RAW_D = 208;
constexpr int STORED_BYTES = 3328, AT_SCALES = 0, AT_HIGH = 256, AT_LOW = 1280;
constexpr int SCALE_WORDS = 4, HIGH_LINES = 4, TAIL_BYTES = 32, SUB_K = 16;
#else
#error "compile with one of XPU_FORMAT_Q4_K, XPU_FORMAT_Q5_K, XPU_FORMAT_Q6_K"
#endif

constexpr bool HAS_MINS = TAIL_BYTES == 0;
constexpr int QUARTER_SUBS = QUARTER_K / SUB_K, RUN_SUBS = QUARTER_SUBS / 2;

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
};

inline weights open_weights(bytes all, int64_t n, int64_t k) { return weights{all, ceil_div(n, GROUP), k / BLOCK_K}; }

#endif
