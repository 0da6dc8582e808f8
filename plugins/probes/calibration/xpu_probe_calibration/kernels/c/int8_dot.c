/* y (n) = x (n) and k / 32 times eight dot products of four bytes, of the words a and b. The bytes of a
 * are 0 to 7, so that instructions which take them as unsigned give the same.
 *
 * A word of b is hidden from the compiler before each use: it would else multiply once and add k times.
 */
#include "xpu_c.h"

#if defined(__AVX512VNNI__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#if defined(__AVX512VNNI__)
typedef __m512i word;
static inline word all(uint32_t v) { return _mm512_set1_epi32((int)v); }
static inline word dot(word sum, word a, word b) { return _mm512_dpbusd_epi32(sum, a, b); }
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#elif defined(__AVX2__)
typedef __m256i word;
static inline word all(uint32_t v) { return _mm256_set1_epi32((int)v); }
static inline word dot(word sum, word a, word b)
{
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sum, a, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
#endif
}
#define HIDE(v) __asm__ volatile("" : "+x"(v))
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int32x4_t word;
static inline word all(uint32_t v) { return vreinterpretq_s32_u32(vdupq_n_u32(v)); }
static inline word dot(word sum, word a, word b)
{
    return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#else
typedef int32_t word;
static inline word all(uint32_t v) { return (int32_t)v; }
static inline word dot(word sum, word a, word b)
{
    for (int i = 0; i < 32; i += 8) sum += (int8_t)(a >> i) * (int8_t)(b >> i);
    return sum;
}
#define HIDE(v) __asm__ volatile("" : "+r"(v))
#endif

/* Aligned to an element: the arrays of a caller are. */
typedef struct __attribute__((packed, aligned(4))) stored { word v; } stored;

XPU_KERNEL
{
    const int32_t *x = buffers[0];
    const uint8_t *a_bytes = buffers[1], *b_bytes = buffers[2];
    int32_t *y = buffers[3];
    const int64_t n = sizes[0], k = sizes[1], lanes = sizeof(word) / 4, span = lanes * XPU_CHAINS;
    word a[8], b[8];
    for (int w = 0; w < 8; ++w) {
        uint32_t left, right;
        __builtin_memcpy(&left, a_bytes + 4 * w, 4);
        __builtin_memcpy(&right, b_bytes + 4 * w, 4);
        a[w] = all(left);
        b[w] = all(right);
    }
    for (int64_t start; (start = xpu_take(team, span)) < n;) {
        word sum[XPU_CHAINS];
        for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = ((const stored *)(x + start + j * lanes))->v;
        for (int64_t i = 0; i < k; i += 32) {
#pragma GCC unroll 8
            for (int w = 0; w < 8; ++w) {
                HIDE(b[w]);
#pragma GCC unroll 8
                for (int j = 0; j < XPU_CHAINS; ++j) sum[j] = dot(sum[j], a[w], b[w]);
            }
        }
        for (int j = 0; j < XPU_CHAINS; ++j) ((stored *)(y + start + j * lanes))->v = sum[j];
    }
}
