/* A native tier for whatever shapes the emulated part is said to have: another layout than the software tile's,
 * and products that need all lanes.
 *
 * Lane l holds row l % M of a and column l % N of b, all k of it; of c it holds column l % N, and every
 * (wave_width / N)-th row from l / N on. A sum takes its row of a from a lane that has it.
 */
#ifndef XPU_EMULATOR_MATRIX_H
#define XPU_EMULATOR_MATRIX_H

namespace xpu {
namespace simt {

template <class T, int K> struct native_line {
    static constexpr int count = K * (int)sizeof(T) / 4, lines = 1;
    static_assert(K * sizeof(T) % 16 == 0, "a row of the tile is a multiple of 16 bytes");
    uint32_t word[count];

    uint32_t &at(int i) { return word[XPU_CHECKED_INDEX(i, count)]; }
    static int k(int i) { return i * 4 / (int)sizeof(T); }
    static int line(int) { return 0; }
    static int first(int) { return 0; }
    template <class S> void load_line(const S &from, int64_t start)
    {
        for (int w = 0; w < count; w += 4) {
            const vec<uint32_t, 4> four = from.template load<vec<uint32_t, 4>>(start + w * 4 / (int)sizeof(T));
            for (int i = 0; i < 4; ++i) word[w + i] = four[i];
        }
    }
};

template <class T, int M, int N, int K> struct native_a : native_line<T, K> {
    static int row(int) { return lane() % M; }
    template <class S> void load(const S &from, int64_t offset, int64_t stride)
    {
        this->load_line(from, offset + lane() % M * stride);
    }
};

template <class T, int M, int N, int K> struct native_b : native_line<T, K> {
    static int column(int) { return lane() % N; }
    template <class S> void load(const S &from, int64_t offset, int64_t stride)
    {
        this->load_line(from, offset + lane() % N * stride);
    }
};

template <class R, int M, int N, int K> struct native_sums {
    static constexpr int step = wave_width / N, count = M / step;
    static_assert(wave_width % N == 0 && M % step == 0 && M <= wave_width, "the emulated part has no such tile");
    R sum[count];

    R &at(int i) { return sum[XPU_CHECKED_SUM(sum, i, count)]; }
    const R &at(int i) const { return sum[XPU_CHECKED_SUM(sum, i, count)]; }
    static int row(int i) { return lane() / N + i * step; }
    static int column(int) { return lane() % N; }
};

template <class T, int M, int N, int K> struct native_product {
    template <class C, class A, class B> static void add(C &c, const A &a, const B &b XPU_SITE_TYPE)
    {
        for (int i = 0; i < C::count; ++i)
            for (int w = 0; w < A::count; ++w) {
                operand<T> left, right;
                left.take(simt::exchange(a.word[w], C::row(i) XPU_SITE_PASSED));
                right.take(b.word[w]);
                c.at(i) = operand<T>::multiplied(left, right, c.at(i));
            }
    }
};

} // namespace simt
} // namespace xpu

#endif
