/* The three K-quant formats, and the prepared layout that every kernel of this folder reads.
 *
 * Source: the GGUF K-quant block formats (ggml's Q4_K, Q5_K, Q6_K), as facts:
 *   a block holds 256 weights of one row; bytes in this order, f16 little-endian;
 *   Q4_K 144: f16 d, f16 dmin, 12 bytes of scales, 128 bytes of low nibbles
 *   Q5_K 176: the same with 32 bytes of fifth bits before the nibbles
 *   Q6_K 210: 128 bytes of low nibbles, 64 bytes of bits 4 and 5, 16 int8 scales, f16 d
 *   weight = d * scale * q - dmin * min       (Q4_K, Q5_K; 8 sub-blocks of 32)
 *   weight = d * scale * (q - 32)             (Q6_K;      16 sub-blocks of 16)
 *
 * Prepared: 16 weight rows (columns of the product) form a group; every field is cut into 32-bit
 * words and the words of the 16 columns stand side by side, one 64-byte line per word index. So one
 * line holds 4 consecutive k of 16 columns, which is the operand of 8-bit dot instructions.
 *
 *      byte of a line   0        4        8               60
 *                    +--------+--------+--------+-----+--------+
 *      word w        | col 0  | col 1  | col 2  | ... | col 15 |
 *                    +--------+--------+--------+-----+--------+
 *
 *   Q4_K, 2304 bytes: d[16] dmin[16] (f16) | 3 lines of scales | 32 lines of nibbles
 *   Q5_K, 2816 bytes: d[16] dmin[16] (f16) | 3 lines of scales | 8 lines of fifth bits | 32 of nibbles
 *   Q6_K, 3328 bytes: 4 lines of scales | per half block: 8 lines of high bits, 16 lines of nibbles
 *         and, behind all blocks of all groups, d[16] per (group, block): 32 bytes would misalign
 *         every second block if they stood inside it.
 *
 *   buffer: [group][k block][block bytes], then for Q6_K [group][k block][32]
 *
 * Its size is the raw size with n rounded up to 16; padded columns are zero weights.
 */
#ifndef KQUANT_BLOCKS_H
#define KQUANT_BLOCKS_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

enum { BLOCK_K = 256, GROUP = 16, LINE = 64 };

#if defined(XPU_FORMAT_Q4_K)
enum { RAW_BYTES = 144, RAW_SCALES = 4, RAW_HIGH = 0, RAW_LOW = 16,
       SCALE_LINES = 3, HIGH_LINES = 0, AT_SCALES = 64, AT_LOW = 256, AT_HIGH = 0,
       STORED_BYTES = 2304, TAIL_BYTES = 0, SUB_K = 32 };
#elif defined(XPU_FORMAT_Q5_K)
enum { RAW_BYTES = 176, RAW_SCALES = 4, RAW_HIGH = 16, RAW_LOW = 48,
       SCALE_LINES = 3, HIGH_LINES = 8, AT_SCALES = 64, AT_HIGH = 256, AT_LOW = 768,
       STORED_BYTES = 2816, TAIL_BYTES = 0, SUB_K = 32 };
#elif defined(XPU_FORMAT_Q6_K)
enum { RAW_BYTES = 210, RAW_SCALES = 192, RAW_HIGH = 128, RAW_LOW = 0,
       SCALE_LINES = 4, HIGH_LINES = 16, AT_SCALES = 0, AT_HIGH = 256, AT_LOW = 768,
       STORED_BYTES = 3328, TAIL_BYTES = 32, SUB_K = 16, RAW_D = 208 };
#else
#error "compile with one of XPU_FORMAT_Q4_K, XPU_FORMAT_Q5_K, XPU_FORMAT_Q6_K"
#endif

#if defined(XPU_FORMAT_Q6_K)
#define HAS_MINS 0
#else
#define HAS_MINS 1
#endif

enum { SUBS = BLOCK_K / SUB_K };

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Byte offset of nibble line t (0..31) and of high-bit line t within a stored block. */
static inline int low_line(int t)
{
#if HAS_MINS
    return AT_LOW + t * LINE;
#else
    return AT_LOW + (t / 16) * (24 * LINE) + (t % 16) * LINE;
#endif
}

static inline int high_line(int t)
{
#if HAS_MINS
    return AT_HIGH + t * LINE;
#else
    return AT_HIGH + (t / 8) * (24 * LINE) + (t % 8) * LINE;
#endif
}

/* A prepared matrix. */
typedef struct weights {
    const uint8_t *stored;
    const uint8_t *tail;
    int64_t blocks; /* k blocks per group */
} weights;

static inline weights open_weights(const void *prepared, int64_t n, int64_t k)
{
    weights w = {(const uint8_t *)prepared, NULL, k / BLOCK_K};
    w.tail = w.stored + ceil_div(n, GROUP) * w.blocks * STORED_BYTES;
    return w;
}

static inline const uint8_t *stored_block(const weights *w, int64_t group, int64_t block)
{
    return w->stored + (group * w->blocks + block) * STORED_BYTES;
}

/* The f16 block scales d of 16 columns; those of dmin follow 32 bytes later where there are mins. */
static inline const uint8_t *block_d(const weights *w, int64_t group, int64_t block)
{
    if (TAIL_BYTES) return w->tail + (group * w->blocks + block) * TAIL_BYTES;
    return stored_block(w, group, block);
}

#endif
