/* Conversions and packed arithmetic by the part's own instructions. */
#ifndef XPU_CUDA_NUMBERS_H
#define XPU_CUDA_NUMBERS_H

namespace xpu {

XPU_DEVICE float to_float(half v)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
    return f;
}

XPU_DEVICE half half_from(float f)
{
    half v;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v.bits) : "f"(f));
    return v;
}

XPU_DEVICE half2 fma(half2 a, half2 b, half2 c)
{
    half2 d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d.bits) : "r"(a.bits), "r"(b.bits), "r"(c.bits));
    return d;
}

XPU_DEVICE float to_float(bfloat16 v) { return simt::bits<float>((uint32_t)v.bits << 16); }

XPU_DEVICE bfloat16 bfloat16_from(float f)
{
    bfloat16 v;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v.bits) : "f"(f));
    return v;
}

} // namespace xpu

#endif
