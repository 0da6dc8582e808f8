/* Vectors of LANES 32-bit lanes, one lane per column of the product, and the 8-bit dot step.
 *
 * Everything but four operations is written with the compilers' vector extension, so that one source
 * serves AVX-512, AVX2, SSE2, NEON and plain C; LANES divides the 16 columns of a group, and narrower
 * machines walk a group in slices.
 */
#ifndef KQUANT_LANES_H
#define KQUANT_LANES_H

#include "blocks.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#if defined(KQUANT_PLAIN) /* tests: the path of machines without one of the others */
#undef __SSE2__
#define LANES 4
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

enum { SLICES = GROUP / LANES };

typedef int32_t vi __attribute__((vector_size(LANES * 4), may_alias));
typedef uint32_t vu __attribute__((vector_size(LANES * 4), may_alias));
typedef float vf __attribute__((vector_size(LANES * 4), may_alias));
typedef uint16_t vh __attribute__((vector_size(LANES * 2), may_alias));
/* The same without an alignment, for what the caller owns. */
typedef float vf_any __attribute__((vector_size(LANES * 4), may_alias, aligned(4)));

#define INLINE static inline __attribute__((always_inline))

INLINE vf to_float(vi v) { return __builtin_convertvector(v, vf); }
INLINE vf spread(float f) { return f - (vf){0}; }
INLINE vi spread_word(const int8_t *four)
{
    int32_t word;
    memcpy(&word, four, 4);
    return word - (vi){0};
}

/* LANES f16 to float32. */
INLINE vf load_half(const uint8_t *p)
{
#if LANES == 16
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif LANES == 8 && defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    vh h;
    memcpy(&h, p, sizeof h);
    const vu u = __builtin_convertvector(h, vu);
    /* Moving the 15 low bits up 13 gives the value times 2^-112, denormals included. */
    const vf magnitude = (vf)((u & 0x7fff) << 13) * 0x1p112f;
    /* Exponent 31 is infinity or NaN, in float32 exponent 255. */
    const vu special = (vu)((u & 0x7c00) == 0x7c00) & 0x7f800000u;
    return (vf)((vu)magnitude | special | ((u & 0x8000) << 16));
#endif
}

/* acc + the sum over 4 k of w (unsigned, below 128) times x (signed), per lane. */
INLINE vi dot4(vi acc, vu w, vi x)
{
#if LANES == 16 && defined(__AVX512VNNI__)
    return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)w, (__m512i)x);
#elif LANES == 8 && defined(__AVXVNNI__)
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)w, (__m256i)x);
#elif LANES == 4 && defined(__SSE2__)
    const __m128i even = (__m128i)(w & 0x00ff00ffu), odd = (__m128i)((w >> 8) & 0x00ff00ffu);
    const __m128i x_even = _mm_srai_epi16(_mm_slli_epi16((__m128i)x, 8), 8);
    const __m128i x_odd = _mm_srai_epi16((__m128i)x, 8);
    return acc + (vi)_mm_madd_epi16(even, x_even) + (vi)_mm_madd_epi16(odd, x_odd);
#else
    for (int byte = 0; byte < 4; ++byte)
        acc += (vi)((w >> (8 * byte)) & 0xff) * ((x << (24 - 8 * byte)) >> 24);
    return acc;
#endif
}

/* The same over two words. Without an own instruction, 16-bit sums of the pairs are added first: at
 * most 4 * 63 * 127 = 32004, and so within 16 bits. */
INLINE vi dot8(vi acc, const vu w[2], vi x_0, vi x_1)
{
#if LANES == 16 && !defined(__AVX512VNNI__)
    const __m512i first = _mm512_maddubs_epi16((__m512i)w[0], (__m512i)x_0);
    const __m512i second = _mm512_maddubs_epi16((__m512i)w[1], (__m512i)x_1);
    return acc + (vi)_mm512_madd_epi16(_mm512_add_epi16(first, second), _mm512_set1_epi16(1));
#elif LANES == 8 && !defined(__AVXVNNI__)
    const __m256i first = _mm256_maddubs_epi16((__m256i)w[0], (__m256i)x_0);
    const __m256i second = _mm256_maddubs_epi16((__m256i)w[1], (__m256i)x_1);
    return acc + (vi)_mm256_madd_epi16(_mm256_add_epi16(first, second), _mm256_set1_epi16(1));
#else
    return dot4(dot4(acc, w[0], x_0), w[1], x_1);
#endif
}

#endif
