/* v_mfma: each of four parts of the wave has 4 of 16 k. xpu_hip_matrix.h includes it. */
#ifndef XPU_HIP_MFMA_H
#define XPU_HIP_MFMA_H

namespace xpu {
namespace simt {

typedef _Float16 mfma_halves __attribute__((vector_size(8)));
typedef short mfma_bfloats __attribute__((vector_size(8)));

#if XPU_HIP_MFMA < 940
template <> struct instruction<int8_t> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        c = __builtin_amdgcn_mfma_i32_16x16x16i8((int)a[0], (int)b[0], c, 0, 0, 0);
    }
};
#else
/* One of 32 k, two words of each lane; of 16, half of it is zero. */
template <> struct all_steps<int8_t, 2> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        c = __builtin_amdgcn_mfma_i32_16x16x32_i8(packed<long, 2>(a), packed<long, 2>(b), c, 0, 0, 0);
    }
};
template <> struct all_steps<int8_t, 1> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        const uint32_t wide_a[] = {a[0], 0}, wide_b[] = {b[0], 0};
        all_steps<int8_t, 2>::add(c, wide_a, wide_b);
    }
};
#endif

template <> struct instruction<half> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        c = __builtin_amdgcn_mfma_f32_16x16x16f16(packed<mfma_halves, 2>(a), packed<mfma_halves, 2>(b), c, 0, 0, 0);
    }
};

#if XPU_HIP_MFMA > 908
template <> struct instruction<bfloat16> {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(packed<mfma_bfloats, 2>(a), packed<mfma_bfloats, 2>(b), c, 0, 0, 0);
    }
};
#endif

} // namespace simt
} // namespace xpu

#endif
