/* Dot products of four 8-bit numbers: from gfx11 on with signs of each operand's own, before that signed ones
 * on most parts; where a part has neither, the prelude's own. */
#ifndef XPU_HIP_DOT_H
#define XPU_HIP_DOT_H

namespace xpu {
#if __has_builtin(__builtin_amdgcn_sudot4)
#define XPU_NATIVE_DOT4 1
XPU_DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
}
XPU_DEVICE int32_t dot4_us(uint32_t a, uint32_t b, int32_t c)
{
    return __builtin_amdgcn_sudot4(false, (int)a, true, (int)b, c, false);
}
#elif __has_builtin(__builtin_amdgcn_sdot4)
#define XPU_NATIVE_DOT4 1
XPU_DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
}
/* An unsigned byte is the signed one with its highest bit turned, plus 128. Sums wrap, so that only the
 * result has to fit. */
XPU_DEVICE int32_t dot4_us(uint32_t a, uint32_t b, int32_t c)
{
    const uint32_t all = (uint32_t)__builtin_amdgcn_sdot4(0x01010101, (int)b, 0, false);
    return dot4(a ^ 0x80808080u, b, (int32_t)((uint32_t)c + (all << 7)));
}
#endif
} // namespace xpu

#endif
