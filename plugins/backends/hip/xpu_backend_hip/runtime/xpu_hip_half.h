/* Halves by the part's own instructions, which every part from gfx9 on has. */
#ifndef XPU_HIP_HALF_H
#define XPU_HIP_HALF_H

namespace xpu {

namespace simt {
typedef _Float16 two_halves __attribute__((ext_vector_type(2)));
} // namespace simt

XPU_DEVICE float to_float(half v) { return (float)simt::bits<_Float16>(v.bits); }

XPU_DEVICE half half_from(float f) { return half{simt::bits<uint16_t>((_Float16)f)}; }

XPU_DEVICE half2 fma(half2 a, half2 b, half2 c)
{
    using two = simt::two_halves;
    return half2{simt::bits<uint32_t>(
        __builtin_elementwise_fma(simt::bits<two>(a.bits), simt::bits<two>(b.bits), simt::bits<two>(c.bits)))};
}

} // namespace xpu

#endif
