/* x (1), y (2048), set. Set 0 writes the macros of all sets that may be used, each ended by a space;
 * set s runs an instruction of the s-th of them and writes what it gives, 5 * x, into y[0]. They are
 * in assembly: a compiler narrows or folds what it can see through, and touches no such register. */
#include <string.h>
#include "xpu_c.h"

typedef struct sets {
    uint8_t *names;
    int64_t wanted, at;
} sets;

static __attribute__((noinline, unused)) int is_next(sets *all, const char *name)
{
    all->at++;
    if (all->wanted) return all->at == all->wanted;
    while (*name) *all->names++ = (uint8_t)*name++;
    *all->names++ = ' ';
    return 0;
}

/* %0 is the result, %1 is x, %2 is 5. */
#define SET(macro, text) \
    if (is_next(&all, #macro)) __asm__ volatile(text : "=&r"(got) : "r"(x), "r"(5) : REGISTERS);

#if defined(__x86_64__)
#define REGISTERS "xmm0", "xmm1", "xmm2", "cc", "memory"
#define XMM "vmovd %1, %%xmm0\n vmovd %2, %%xmm1\n vpxor %%xmm2, %%xmm2, %%xmm2\n "
#define ZMM "vpbroadcastd %1, %%zmm0\n vpbroadcastd %2, %%zmm1\n vpxord %%zmm2, %%zmm2, %%zmm2\n "
#define GIVES(number) "\n vmovd %%xmm" #number ", %0\n vzeroupper"
#define TIMES_X "\n imull %1, %0"
#define TIMES_5 "\n imull $5, %0, %0"
#define HALF "\n sarl $1, %0"
#elif defined(__aarch64__)
#define REGISTERS "v0", "v1", "v2", "cc", "memory"
#define FOURS "dup v0.4s, %w1\n dup v1.4s, %w2\n movi v2.4s, #0\n "
#define GIVES "\n fmov %w0, s2"
#else
#define REGISTERS "memory"
#endif

#ifdef __AMX_TILE__
static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bfloat16_of(int32_t small)
{
    const float value = (float)small;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 16;
}

static inline uint32_t half_of(int32_t small) { return (bfloat16_of(small) << 3) - (112 << 10); }

/* Tiles of one row of four bytes: tmm1 holds `a` and tmm2 `b`; what the verb leaves in tmm0. */
#define TILES(verb, a, b)                                                                       \
    ({                                                                                          \
        const struct {                                                                          \
            uint8_t palette, start, reserved[14];                                               \
            uint16_t row_bytes[16];                                                             \
            uint8_t rows[16];                                                                   \
        } shape = {.palette = 1, .row_bytes = {4, 4, 4}, .rows = {1, 1, 1}};                    \
        const uint32_t left = (uint32_t)(a), right = (uint32_t)(b);                             \
        uint32_t sum = 0;                                                                       \
        __asm__ volatile("ldtilecfg %4\n tilezero %%tmm0\n tileloadd (%1,%3), %%tmm1\n"         \
                         "tileloadd (%2,%3), %%tmm2\n" verb "\n tilestored %%tmm0, (%0,%3)\n"   \
                         "tilerelease"                                                          \
                         ::"r"(&sum), "r"(&left), "r"(&right), "r"((int64_t)64), "m"(shape)     \
                         : "memory");                                                           \
        sum;                                                                                    \
    })
#define PRODUCT(verb) verb " %%tmm2, %%tmm1, %%tmm0"
#endif

XPU_KERNEL
{
    const int32_t x = *(const int32_t *)buffers[0];
    uint8_t *y = buffers[1];
    sets all = {y, sizes[0], 0};
    int32_t got = 0;
    (void)x; /* of no use where there is no set */
    if (xpu_take(team, 1)) return;
    for (int i = 0; i < 2048; i++) y[i] = 0;
#ifdef __SSE4_1__
    SET(__SSE4_1__, "movd %1, %%xmm0\n movd %2, %%xmm1\n pmulld %%xmm1, %%xmm0\n movd %%xmm0, %0")
#endif
#ifdef __SSE4_2__
    SET(__SSE4_2__, "movd %1, %%xmm0\n pxor %%xmm1, %%xmm1\n pcmpgtq %%xmm1, %%xmm0\n movd %%xmm0, %0\n negl %0" TIMES_X TIMES_5)
#endif
#ifdef __POPCNT__
    SET(__POPCNT__, "popcntl %2, %0" TIMES_X TIMES_5 HALF)
#endif
#ifdef __LZCNT__
    SET(__LZCNT__, "lzcntl %2, %0\n subl $24, %0" TIMES_X)
#endif
#ifdef __BMI__
    SET(__BMI__, "xorl %0, %0\n andnl %2, %0, %0" TIMES_X)
#endif
#ifdef __BMI2__
    SET(__BMI2__, "rorxl $1, %2, %0\n roll $1, %0" TIMES_X)
#endif
#ifdef __GFNI__
    SET(__GFNI__, "movd %1, %%xmm0\n movl $1, %0\n movd %0, %%xmm1\n gf2p8mulb %%xmm1, %%xmm0\n movd %%xmm0, %0" TIMES_5)
#endif
#ifdef __AVX__
    SET(__AVX__, XMM "vinsertf128 $1, %%xmm0, %%ymm2, %%ymm2\n vextractf128 $1, %%ymm2, %%xmm0" GIVES(0) TIMES_5)
#endif
#ifdef __F16C__
    SET(__F16C__, XMM "vcvtdq2ps %%xmm0, %%xmm0\n vcvtps2ph $0, %%xmm0, %%xmm0\n vcvtph2ps %%xmm0, %%xmm0\n vcvttps2dq %%xmm0, %%xmm0" GIVES(0) TIMES_5)
#endif
#ifdef __FMA__
    SET(__FMA__, XMM "vcvtdq2ps %%xmm0, %%xmm0\n vcvtdq2ps %%xmm1, %%xmm1\n vfmadd231ps %%ymm1, %%ymm0, %%ymm2\n vcvttps2dq %%xmm2, %%xmm2" GIVES(2))
#endif
#ifdef __AVX2__
    SET(__AVX2__, XMM "vpbroadcastd %%xmm0, %%ymm0\n vpbroadcastd %%xmm1, %%ymm1\n vpmulld %%ymm1, %%ymm0, %%ymm2\n vextracti128 $1, %%ymm2, %%xmm2" GIVES(2))
#endif
#ifdef __AVXVNNI__
    SET(__AVXVNNI__, XMM "%{vex%} vpdpbusd %%ymm1, %%ymm0, %%ymm2" GIVES(2))
#endif
#ifdef __AVXVNNIINT8__
    SET(__AVXVNNIINT8__, XMM "vpdpbssd %%ymm1, %%ymm0, %%ymm2" GIVES(2))
#endif
#ifdef __AVXVNNIINT16__
    SET(__AVXVNNIINT16__, XMM "vpdpwsud %%ymm1, %%ymm0, %%ymm2" GIVES(2))
#endif
#ifdef __AVXIFMA__
    SET(__AVXIFMA__, XMM "%{vex%} vpmadd52luq %%ymm1, %%ymm0, %%ymm2" GIVES(2))
#endif
#ifdef __AVX512F__
    SET(__AVX512F__, ZMM "vpmulld %%zmm1, %%zmm0, %%zmm2\n vextracti32x4 $3, %%zmm2, %%xmm2" GIVES(2))
#endif
#ifdef __AVX512BW__
    SET(__AVX512BW__, ZMM "vpmullw %%zmm1, %%zmm0, %%zmm2" GIVES(2))
#endif
#ifdef __AVX512CD__
    SET(__AVX512CD__, ZMM "vplzcntd %%zmm1, %%zmm2" GIVES(2) "\n subl $24, %0" TIMES_X)
#endif
#ifdef __AVX512DQ__
    SET(__AVX512DQ__, ZMM "vpmullq %%zmm1, %%zmm0, %%zmm2" GIVES(2))
#endif
#ifdef __AVX512VL__
    SET(__AVX512VL__, "vpbroadcastd %1, %%ymm0" GIVES(0) TIMES_5)
#endif
#ifdef __AVX512IFMA__
    SET(__AVX512IFMA__, ZMM "vpmadd52luq %%zmm1, %%zmm0, %%zmm2" GIVES(2))
#endif
#ifdef __AVX512VNNI__
    SET(__AVX512VNNI__, ZMM "vpdpwssd %%zmm1, %%zmm0, %%zmm2" GIVES(2))
#endif
#ifdef __AVX512VBMI__
    SET(__AVX512VBMI__, ZMM "vpermb %%zmm0, %%zmm2, %%zmm2" GIVES(2) "\n andl $255, %0" TIMES_5)
#endif
#ifdef __AVX512VBMI2__
    SET(__AVX512VBMI2__, ZMM "vpshldd $2, %%zmm0, %%zmm0, %%zmm2\n vpaddd %%zmm0, %%zmm2, %%zmm2" GIVES(2))
#endif
#ifdef __AVX512BITALG__
    SET(__AVX512BITALG__, ZMM "vpopcntb %%zmm1, %%zmm2" GIVES(2) TIMES_X TIMES_5 HALF)
#endif
#ifdef __AVX512VPOPCNTDQ__
    SET(__AVX512VPOPCNTDQ__, ZMM "vpopcntd %%zmm1, %%zmm2" GIVES(2) TIMES_X TIMES_5 HALF)
#endif
#ifdef __AVX512BF16__
    SET(__AVX512BF16__, ZMM "vcvtdq2ps %%zmm0, %%zmm0\n vcvtdq2ps %%zmm1, %%zmm1\n vcvtneps2bf16 %%zmm0, %%ymm0\n vcvtneps2bf16 %%zmm1, %%ymm1\n vdpbf16ps %%zmm1, %%zmm0, %%zmm2\n vcvttps2dq %%zmm2, %%zmm2" GIVES(2) HALF)
#endif
#ifdef __AVX512FP16__
    SET(__AVX512FP16__, "vcvtsi2shl %1, %%xmm0, %%xmm0\n vcvtsi2shl %2, %%xmm1, %%xmm1\n vmulph %%zmm1, %%zmm0, %%zmm0\n vcvttsh2si %%xmm0, %0\n vzeroupper")
#endif
#ifdef __AMX_TILE__
    if (is_next(&all, "__AMX_TILE__")) got = 5 * (int32_t)TILES("tileloadd (%1,%3), %%tmm0", x, 0);
#endif
#ifdef __AMX_INT8__
    if (is_next(&all, "__AMX_INT8__")) got = (int32_t)TILES(PRODUCT("tdpbssd"), x, 5);
#endif
#ifdef __AMX_BF16__
    if (is_next(&all, "__AMX_BF16__"))
        got = (int32_t)float_of(TILES(PRODUCT("tdpbf16ps"), bfloat16_of(x), bfloat16_of(5)));
#endif
#ifdef __AMX_FP16__
    if (is_next(&all, "__AMX_FP16__")) got = (int32_t)float_of(TILES(PRODUCT("tdpfp16ps"), half_of(x), half_of(5)));
#endif
#ifdef __AMX_COMPLEX__
    if (is_next(&all, "__AMX_COMPLEX__"))
        got = (int32_t)float_of(TILES(PRODUCT("tcmmrlfp16ps"), half_of(x), half_of(5)));
#endif
#ifdef __ARM_FEATURE_DOTPROD
    SET(__ARM_FEATURE_DOTPROD, FOURS "udot v2.4s, v0.16b, v1.16b" GIVES)
#endif
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
    SET(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, "scvtf h0, %w1\n scvtf h1, %w2\n fmul v2.8h, v0.8h, v1.8h\n fcvtzs %w0, h2")
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    SET(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC, "scvtf s0, %w1\n scvtf s1, %w2\n bfcvt h0, s0\n bfcvt h1, s1\n movi v2.4s, #0\n bfdot v2.4s, v0.8h, v1.8h\n fcvtzs %w0, s2")
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    SET(__ARM_FEATURE_MATMUL_INT8, FOURS "ummla v2.4s, v0.16b, v1.16b" GIVES "\n lsr %w0, %w0, #1")
#endif
#ifdef __ARM_FEATURE_SVE
    SET(__ARM_FEATURE_SVE, "mov z0.s, %w1\n mov z2.s, #0\n add z2.s, z2.s, z0.s" GIVES "\n mul %w0, %w0, %w2")
#endif
#ifdef __ARM_FEATURE_SVE2
    SET(__ARM_FEATURE_SVE2, "mov z0.s, %w1\n mov z1.s, %w2\n mul z2.s, z0.s, z1.s" GIVES)
#endif
#ifdef __riscv_vector
    SET(__riscv_vector, "vsetivli zero, 1, e32, m1, ta, ma\n vmv.v.x v8, %1\n vmul.vx v8, v8, %2\n vmv.x.s %0, v8")
#endif
    if (all.wanted) y[0] = (uint8_t)got;
}
