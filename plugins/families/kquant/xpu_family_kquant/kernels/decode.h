/* One stored block, LANES columns of it, to unsigned bytes and float32 scales.
 *
 * A nibble line carries two runs of 4 k: its low nibbles and its high nibbles. The 32 lines fall into
 * 4 quarters of 8; `quarter` q and `line` r give the sub-block of 32 and the place in it:
 *
 *              Q4_K, Q5_K          Q6_K (half h = q / 2, a = q % 2)
 *   low        2q                  4h + a
 *   high       2q + 1              4h + a + 2
 *   k in it    4r .. 4r+3          4r .. 4r+3
 */
#ifndef KQUANT_DECODE_H
#define KQUANT_DECODE_H

#include "lanes.h"

INLINE int low_span(int quarter) { return HAS_MINS ? 2 * quarter : 4 * (quarter / 2) + quarter % 2; }
INLINE int high_span(int quarter) { return low_span(quarter) + (HAS_MINS ? 1 : 2); }

INLINE vu load_line(const uint8_t *stored, int at, int slice)
{
    return *(const vu *)(stored + at + slice * LANES * 4);
}

/* Ask for the lines of a block that lies `ahead` bytes on; 0: do not. */
INLINE void ask_ahead(const uint8_t *stored, const int ahead)
{
    if (ahead)
        for (int at = 0; at < STORED_BYTES; at += LINE) __builtin_prefetch(stored + ahead + at, 0, 3);
}

/* q of 4 k: `*low` and `*high` hold one byte per k, unsigned (Q6_K: not yet less 32). */
INLINE void decode_line(const uint8_t *stored, int slice, int quarter, int r, vu *low, vu *high)
{
    const vu raw = load_line(stored, low_line(quarter * 8 + r), slice);
    *low = raw & 0x0f0f0f0fu;
    *high = (raw >> 4) & 0x0f0f0f0fu;
#if defined(XPU_FORMAT_Q5_K)
    const vu bits = load_line(stored, high_line(r), slice);
    *low |= ((bits >> (2 * quarter)) << 4) & 0x10101010u;
    *high |= ((bits >> (2 * quarter + 1)) << 4) & 0x10101010u;
#elif defined(XPU_FORMAT_Q6_K)
    const vu bits = load_line(stored, high_line((quarter / 2) * 8 + r), slice);
    *low |= (bits << (4 - 2 * (quarter % 2))) & 0x30303030u;
    *high |= (bits >> (2 * (quarter % 2))) & 0x30303030u;
#endif
}

#if HAS_MINS
/* Words of four 6-bit numbers: out[0..1] scales 0-3 and 4-7, out[2..3] mins 0-3 and 4-7. */
INLINE void scale_words(const uint8_t *stored, int slice, vu out[4])
{
    const vu a = load_line(stored, AT_SCALES, slice);
    const vu b = load_line(stored, AT_SCALES + LINE, slice);
    const vu c = load_line(stored, AT_SCALES + 2 * LINE, slice);
    out[0] = a & 0x3f3f3f3fu;
    out[1] = (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u);
    out[2] = b & 0x3f3f3f3fu;
    out[3] = ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u);
}
#else
INLINE void scale_words(const uint8_t *stored, int slice, vu out[4])
{
    for (int t = 0; t < 4; ++t) out[t] = load_line(stored, AT_SCALES + t * LINE, slice);
}
#endif

/* Number i of a run of words, as float32. Scales are signed bytes; 6-bit ones are the same so read. */
INLINE vf scale_at(const vu *words, int i)
{
    return to_float((vi)(words[i / 4] << (24 - 8 * (i % 4))) >> 24);
}

/* Scales times d, and mins times dmin, of every sub-block; `stride` floats apart in the caller's arrays. */
INLINE void decode_scales(const weights *w, int64_t group, int64_t block, int slice, float *scales, float *mins,
                          int stride)
{
    const uint8_t *stored = stored_block(w, group, block), *d = block_d(w, group, block) + slice * LANES * 2;
    vu words[4];
    scale_words(stored, slice, words);
    const vf d_scale = load_half(d);
    for (int i = 0; i < SUBS; ++i) *(vf *)(scales + i * stride) = scale_at(words, i) * d_scale;
#if HAS_MINS
    const vf d_min = load_half(d + 32);
    for (int i = 0; i < SUBS; ++i) *(vf *)(mins + i * stride) = scale_at(words + 2, i) * d_min;
#else
    (void)mins;
#endif
}

#endif
