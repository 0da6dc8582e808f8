/* v_wmma: gfx11 takes all 16 k of a line in every lane, gfx12 half of them. xpu_hip_matrix.h includes it. */
#ifndef XPU_HIP_WMMA_H
#define XPU_HIP_WMMA_H

#if XPU_HIP_WMMA == 11
#define XPU_HIP_WMMA_OF(kind) __builtin_amdgcn_wmma_##kind##_w32
#else
#define XPU_HIP_WMMA_OF(kind) __builtin_amdgcn_wmma_##kind##_w32_gfx12
#endif

namespace xpu {
namespace simt {

typedef int wmma_bytes __attribute__((vector_size(step_words<int8_t> * 4)));
typedef _Float16 wmma_halves __attribute__((vector_size(step_words<half> * 4)));
typedef short wmma_bfloats __attribute__((vector_size(step_words<bfloat16> * 4)));

template <> struct instruction<int8_t> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        constexpr int words = step_words<int8_t>;
        c = XPU_HIP_WMMA_OF(i32_16x16x16_iu8)(true, packed<wmma_bytes, words>(a), true, packed<wmma_bytes, words>(b), c,
                                              false);
    }
};

template <> struct instruction<half> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        constexpr int words = step_words<half>;
        c = XPU_HIP_WMMA_OF(f32_16x16x16_f16)(packed<wmma_halves, words>(a), packed<wmma_halves, words>(b), c);
    }
};

template <> struct instruction<bfloat16> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        constexpr int words = step_words<bfloat16>;
        c = XPU_HIP_WMMA_OF(f32_16x16x16_bf16)(packed<wmma_bfloats, words>(a), packed<wmma_bfloats, words>(b), c);
    }
};

} // namespace simt
} // namespace xpu

#undef XPU_HIP_WMMA_OF

#endif
