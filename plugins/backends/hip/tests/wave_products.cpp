/* Every native shape of xpu_hip_matrix.h on the model of a wave. */
#include "wave_model.h"

#define XPU_DEVICE inline
#define XPU_KEPT inline
#define XPU_SITE_PARAMETER
#define XPU_SITE(verb)
#define XPU_SITE_TYPE
#define XPU_SITE_PASSED

namespace xpu {
constexpr int wave_width = model::LANES;
inline int lane() { return model::lane; }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
namespace simt {
inline uint32_t exchange(uint32_t word, int) { return word; }
inline void converge(int64_t) {}
} // namespace simt
template <class T> struct memory {
    T *pointer;
    template <class U> memory<U> as() const { return {(U *)pointer}; }
    template <class V> V load(int64_t i) const
    {
        V value;
        if ((uintptr_t)(pointer + i) % alignof(V)) model::fault = 1;
        memcpy(&value, pointer + i, sizeof value);
        return value;
    }
    template <class V> void store(int64_t i, const V &v) const { memcpy((void *)(pointer + i), &v, sizeof v); }
};
template <class T> struct shared : memory<T> {};
template <class T> struct global : memory<T> {};
} // namespace xpu

#define XPU_THREADS 64
#include "xpu_simt_common.h"

#include "xpu_hip_matrix.h"

struct data { const void *a, *b; int64_t offset_a, offset_b, stride; void *c; int *writes; int is_filled, times; };

/* c (M, 16) := c + times * a (M, K) b (K, 16)^T, in elements of R. */
template <class T, class R, int M, int K> void product(const data &d)
{
    xpu::matrix_a<T, M, 16, K> a;
    xpu::matrix_b<T, M, 16, K> b;
    xpu::accumulator<R, M, 16, K> c;
    static_assert(a.is_native && b.is_native && c.is_native, "the shape is not native");
    R *sums = (R *)d.c;
    const xpu::shared<T> from_a = {{(T *)d.a}}, from_b = {{(T *)d.b}};
    xpu::fill(c, (R)0);
    for (int i = 0; i < c.count; ++i) c[i] = sums[c.row(i) * 16 + c.column(i)];
    if (d.is_filled) {
        for (int i = 0; i < a.count; ++i)
            a[i] = from_a.template load<uint32_t>(d.offset_a + a.row(i) * d.stride + a.k(i));
        for (int i = 0; i < b.count; ++i)
            b[i] = from_b.template load<uint32_t>(d.offset_b + b.column(i) * d.stride + b.k(i));
    } else {
        xpu::load(a, from_a, d.offset_a, d.stride);
        xpu::load(b, from_b, d.offset_b, d.stride);
    }
    for (int i = 0; i < d.times; ++i) xpu::multiply(c, a, b);
    for (int i = 0; i < c.count; ++i) {
        const int at = c.row(i) * 16 + c.column(i);
        sums[M * 16 + at] = c[i];
        ++d.writes[at];
    }
}

template <class T, class R> void (*chosen(int m, int k))(const data &)
{
    if (m == 16) return k == 16 ? product<T, R, 16, 16> : product<T, R, 16, 32>;
    return k == 16 ? product<T, R, 8, 16> : product<T, R, 8, 32>;
}

/* Returns the matrix instructions that were made, -1 for a fault. c has the sums before, and room for those after. */
extern "C" int run(int element, int m, int k, const data *d)
{
    const auto program = element == 0 ? chosen<int8_t, int32_t>(m, k)
                         : element == 1 ? chosen<xpu::half, float>(m, k) : chosen<xpu::bfloat16, float>(m, k);
    model::fault = 0;
    model::run_wave([&] { program(*d); });
    return model::fault ? -1 : (int)model::done.size();
}

/* What the model takes to be where: k of a register and an element of it; row of a register of sums. */
extern "C" int model_k(int kind, int lane, int reg, int e) { return model::k_of((model::kind)kind, lane, reg, e); }
extern "C" int model_row(int kind, int lane, int reg) { return model::row_of_sum((model::kind)kind, lane, reg); }
