/* Products with lines that a block shares, by the instructions of a warpgroup.
 *
 * An operand and its sums lie in the lanes as for mma: 16 rows a warp, and of the sums eight columns after the
 * other. The lines are found by a matrix descriptor: rows of 128 bytes, swizzled by 128, eight of them 1024 bytes.
 *
 * Source: PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate instructions", their descriptors and
 * proxies. Code for sm_90a alone has them.
 */
#ifndef XPU_CUDA_LINES_H
#define XPU_CUDA_LINES_H

#ifdef XPU_NATIVE_LINES
namespace xpu {

namespace simt {
/* What the threads have stored is there for what reads it past them. */
XPU_DEVICE void publish_lines() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* Nothing here but publish_lines touches memory that the compiler knows of, so that what makes the next operands may
 * be moved past it. */
template <int L> XPU_DEVICE void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(L)); }

template <class T, int N> struct wgmma;

#define XPU_SUMS(j) \
    "+f"(c[j].held.sum[0]), "+f"(c[j].held.sum[1]), "+f"(c[j].held.sum[2]), "+f"(c[j].held.sum[3]), \
        "+f"(c[j].held.sum[4]), "+f"(c[j].held.sum[5]), "+f"(c[j].held.sum[6]), "+f"(c[j].held.sum[7])
#define XPU_WGMMA(T, type, N, lines, sums, w0, w1, w2, w3, place, ...) \
    template <> struct wgmma<T, N> { \
        template <class C> static XPU_DEVICE void add(C (&c)[N], const uint32_t *a, uint64_t b) \
        { \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" lines "k16.f32." type "." type " {" sums \
                         "}, {%" w0 ",%" w1 ",%" w2 ",%" w3 "}, %" place ", 1, 1, 1, 0;" \
                         : __VA_ARGS__ \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)); \
        } \
    };
#define XPU_8_SUMS \
    "%0,%1,%2,%3,%4,%5,%6,%7"
#define XPU_16_SUMS \
    XPU_8_SUMS "," \
    "%8,%9,%10,%11,%12,%13,%14,%15"
#define XPU_32_SUMS \
    XPU_16_SUMS "," \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define XPU_64_SUMS \
    XPU_32_SUMS "," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" "," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
XPU_WGMMA(half, "f16", 1, "16", XPU_8_SUMS, "8", "9", "10", "11", "12",
          XPU_SUMS(0))
XPU_WGMMA(bfloat16, "bf16", 1, "16", XPU_8_SUMS, "8", "9", "10", "11", "12",
          XPU_SUMS(0))
XPU_WGMMA(half, "f16", 2, "32", XPU_16_SUMS, "16", "17", "18", "19", "20",
          XPU_SUMS(0), XPU_SUMS(1))
XPU_WGMMA(bfloat16, "bf16", 2, "32", XPU_16_SUMS, "16", "17", "18", "19", "20",
          XPU_SUMS(0), XPU_SUMS(1))
XPU_WGMMA(half, "f16", 4, "64", XPU_32_SUMS, "32", "33", "34", "35", "36",
          XPU_SUMS(0), XPU_SUMS(1), XPU_SUMS(2), XPU_SUMS(3))
XPU_WGMMA(bfloat16, "bf16", 4, "64", XPU_32_SUMS, "32", "33", "34", "35", "36",
          XPU_SUMS(0), XPU_SUMS(1), XPU_SUMS(2), XPU_SUMS(3))
XPU_WGMMA(half, "f16", 8, "128", XPU_64_SUMS, "64", "65", "66", "67", "68",
          XPU_SUMS(0), XPU_SUMS(1), XPU_SUMS(2), XPU_SUMS(3), XPU_SUMS(4), XPU_SUMS(5), XPU_SUMS(6), XPU_SUMS(7))
XPU_WGMMA(bfloat16, "bf16", 8, "128", XPU_64_SUMS, "64", "65", "66", "67", "68",
          XPU_SUMS(0), XPU_SUMS(1), XPU_SUMS(2), XPU_SUMS(3), XPU_SUMS(4), XPU_SUMS(5), XPU_SUMS(6), XPU_SUMS(7))
#undef XPU_WGMMA
#undef XPU_SUMS
#undef XPU_8_SUMS
#undef XPU_16_SUMS
#undef XPU_32_SUMS
#undef XPU_64_SUMS

template <class T, int N>
XPU_DEVICE void multiply_async(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a, uint32_t lines,
                               int k)
{
    constexpr uint64_t swizzled_by_128 = (uint64_t)1 << 62, eight_lines = (uint64_t)(1024 / 16) << 32;
    const uint64_t first = (uint64_t)(lines / 16) | (uint64_t)1 << 16 | eight_lines | swizzled_by_128;
    asm volatile("wgmma.fence.sync.aligned;");
    wgmma<T, N>::add(c, a.held.word, first + k / 8); /* 16 bytes are 1 */
    asm volatile("wgmma.commit_group.sync.aligned;");
}

/* The sums are made by what the compiler takes for done: it is told that they change here. */
template <int N> XPU_DEVICE void multiply_end(accumulator<float, 16, 16, 16> (&c)[N])
{
    for (int j = 0; j < N; ++j)
        for (int i = 0; i < c[j].count; ++i) asm volatile("" : "+f"(c[j].held.sum[i]));
}
} // namespace simt

} // namespace xpu
#endif

#endif
