/* Weights to bfloat16 panels, as AMX multiplies them.
 *
 * A panel (16 columns, 256 k) is 8 tiles of 1 KiB, one per span of 32; line j of a tile holds, for each
 * of the 16 columns, the weights of k = 2j and 2j + 1 side by side.
 */
#ifndef KQUANT_WIDEN_BF16_H
#define KQUANT_WIDEN_BF16_H

#include "amx_rows.h"

/* Per sub-block and column: a weight is scale * (0.5 + q / 256) + offset. */
typedef struct affine {
    float scale[SUBS * LANES], offset[SUBS * LANES];
} affine;

/* 1 + 2^-8 / (2 ln 2): the mean relative loss of cutting a float of evenly spread logarithm to 8 bits. */
#define CUT_LOSS 1.00282f

INLINE void decode_affine(const weights *w, int64_t group, int64_t block, affine *a)
{
    decode_scales(w, group, block, 0, a->scale, a->offset, LANES);
    for (int i = 0; i < SUBS * LANES; i += LANES) {
        const vf s = *(vf *)(a->scale + i) * CUT_LOSS;
        const vf minimum = HAS_MINS ? *(vf *)(a->offset + i) * CUT_LOSS : s * 32.0f;
        *(vf *)(a->scale + i) = s * 256.0f;
        *(vf *)(a->offset + i) = s * -128.0f - minimum;
    }
}

/* The weights of one pair of k, bytes 2 * half and 2 * half + 1 of `q`, as bfloat16 in one line.
 *
 * A byte put into the third byte of 0.5f gives 0.5 + q / 256 without a conversion; the upper halves of
 * two floats are the pair. Both are byte shuffles under a mask. Cutting off the lower halves loses
 * 0.28 % on average, which `scale` and `offset` make up for. */
INLINE __m512i widen_pair(__m512i q, __m512 scale, __m512 offset, const int half)
{
    const __m512i base = _mm512_set1_epi32(0x3f000000);
    const __mmask64 third = 0x4444444444444444ull, lower = 0x3333333333333333ull;
    const __m512i lane = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000);
    const __m512i byte = _mm512_set1_epi32(0x00010000), upper_half = _mm512_set1_epi32(0x00000302);
    /* Byte 2 is in its place already: a blend, which leaves the port of the shuffles free. */
    const __m512i even = half ? _mm512_mask_mov_epi8(base, third, q) : _mm512_mask_shuffle_epi8(base, third, q, lane);
    const __m512i odd = _mm512_mask_shuffle_epi8(base, third, q, lane + byte * (2 * half + 1));
    const __m512 even_weight = _mm512_fmadd_ps((__m512)even, scale, offset);
    const __m512 odd_weight = _mm512_fmadd_ps((__m512)odd, scale, offset);
    return _mm512_mask_shuffle_epi8((__m512i)odd_weight, lower, (__m512i)even_weight, lane + upper_half);
}

/* The weights of 4 k from `at` on: two lines of the panel. */
INLINE void widen_to_panel(vu q, const affine *a, int at, uint8_t *panel)
{
    const __m512 scale = _mm512_load_ps(a->scale + at / SUB_K * LANES);
    const __m512 offset = _mm512_load_ps(a->offset + at / SUB_K * LANES);
    uint8_t *out = panel + at / 2 * LINE;
    _mm512_store_si512(out, widen_pair((__m512i)q, scale, offset, 0));
    _mm512_store_si512(out + LINE, widen_pair((__m512i)q, scale, offset, 1));
}

/* A quarter of a block: two of the 8 tiles of its panel. */
INLINE void widen_quarter(const uint8_t *stored, const affine *a, int quarter, uint8_t *panel)
{
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
        vu low, high;
        decode_line(stored, 0, quarter, r, &low, &high);
        widen_to_panel(low, a, low_span(quarter) * 32 + r * 4, panel);
        widen_to_panel(high, a, high_span(quarter) * 32 + r * 4, panel);
    }
}

#endif
