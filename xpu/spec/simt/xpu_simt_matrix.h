/* Cooperative matrices of the dialect `simt`: the software tier. xpu_simt_common.h includes it.
 *
 * c (M, N) += a (M, K) · b (K, N). A wave holds the M * N sums, count of them in each lane: a patch of
 * patch::rows by patch::columns, spread so that neighbouring lanes have neighbouring columns. A lane
 * loads the rows of a and the columns of b that its patch needs, and multiplies without the others.
 *
 * In shared memory both operands run along k: a (i, k) at offset + i * stride + k, b (k, j) at
 * offset + j * stride + k, in elements. Rows begin at multiples of 16 bytes.
 */
#ifndef XPU_SIMT_MATRIX_H
#define XPU_SIMT_MATRIX_H

namespace xpu {

namespace simt {
template <int M, int N> struct patch {
    static constexpr int count = M * N / wave_width;
    static constexpr int rows = count >= 16 ? 4 : count >= 4 ? 2 : 1;
    static constexpr int columns = count / rows;
    static constexpr int down = M / rows, across = N / columns;
    static_assert(down * across == wave_width && down * rows == M && across * columns == N,
                  "the tile cannot be spread over a wave of this width");
    static XPU_DEVICE int row(int r) { return lane() / across + r * down; }
    static XPU_DEVICE int column(int c) { return lane() % across + c * across; }
};

template <class T> struct operand; /* what a 32-bit word of elements adds to a sum */
template <> struct operand<int8_t> {
    using sum = int32_t;
    uint32_t word;
    XPU_DEVICE void take(uint32_t w) { word = w; }
    static XPU_DEVICE int32_t multiplied(const operand &a, const operand &b, int32_t c) { return dot4(a.word, b.word, c); }
};
template <class T> struct float_operand {
    using sum = float;
    float low, high;
    XPU_DEVICE void take(uint32_t w)
    {
        low = to_float(T{(uint16_t)w});
        high = to_float(T{(uint16_t)(w >> 16)});
    }
    static XPU_DEVICE float multiplied(const float_operand &a, const float_operand &b, float c)
    {
        return fma(a.high, b.high, fma(a.low, b.low, c));
    }
};
template <> struct operand<half> : float_operand<half> {};
template <> struct operand<bfloat16> : float_operand<bfloat16> {};

/* `count` lines of K elements each, as words. */
template <class T, int K, int count> struct lines {
    static constexpr int words = K * (int)sizeof(T) / 4;
    static_assert(K * sizeof(T) % 16 == 0, "a row of the tile is a multiple of 16 bytes");
    uint32_t word[count][words];

    template <class S> XPU_DEVICE void load_line(int at, const S &from, int64_t start)
    {
        for (int w = 0; w < words; w += 4) {
            const vec<uint32_t, 4> four = from.template load<vec<uint32_t, 4>>(start + w * 4 / (int)sizeof(T));
            for (int i = 0; i < 4; ++i) word[at][w + i] = four[i];
        }
    }
};
} // namespace simt

/* Operands. `[i]` is a word of neighbouring k, the first in the lowest bits, of row or column and k(i). */
template <class T, int M, int N, int K> struct matrix_a {
    using patch = simt::patch<M, N>;
    simt::lines<T, K, patch::rows> rows;
    static constexpr int words = simt::lines<T, K, patch::rows>::words, count = patch::rows * words; /* words of one lane */
    XPU_DEVICE uint32_t &operator[](int i) { return rows.word[i / words][i % words]; }
    XPU_DEVICE int row(int i) const { return patch::row(i / words); }
    XPU_DEVICE int k(int i) const { return i % words * 4 / (int)sizeof(T); }
};

template <class T, int M, int N, int K> struct matrix_b {
    using patch = simt::patch<M, N>;
    simt::lines<T, K, patch::columns> columns;
    static constexpr int words = simt::lines<T, K, patch::columns>::words, count = patch::columns * words;
    XPU_DEVICE uint32_t &operator[](int i) { return columns.word[i / words][i % words]; }
    XPU_DEVICE int column(int i) const { return patch::column(i / words); }
    XPU_DEVICE int k(int i) const { return i % words * 4 / (int)sizeof(T); }
};

template <class R, int M, int N, int K> struct accumulator {
    using patch = simt::patch<M, N>;
    static constexpr int count = patch::count; /* sums of one lane */
    R sum[count];
    XPU_DEVICE R &operator[](int i) { return sum[XPU_CHECKED_INDEX(i, count)]; }
    XPU_DEVICE const R &operator[](int i) const { return sum[XPU_CHECKED_INDEX(i, count)]; }
    XPU_DEVICE int row(int i) const { return patch::row(i / patch::columns); }
    XPU_DEVICE int column(int i) const { return patch::column(i % patch::columns); }
};

template <class R, int M, int N, int K> XPU_DEVICE void fill(accumulator<R, M, N, K> &c, R v)
{
    for (int i = 0; i < c.count; ++i) c[i] = v;
}

template <class T, int M, int N, int K, class S>
XPU_DEVICE void load(matrix_a<T, M, N, K> &a, const shared<S> &from, int64_t offset, int64_t stride XPU_SITE_PARAMETER)
{
    simt::converge(offset * 4096 + stride XPU_SITE("load")); /* one tile for the wave */
    for (int r = 0; r < simt::patch<M, N>::rows; ++r)
        a.rows.load_line(r, from.template as<const T>(), offset + simt::patch<M, N>::row(r) * stride);
}

template <class T, int M, int N, int K, class S>
XPU_DEVICE void load(matrix_b<T, M, N, K> &b, const shared<S> &from, int64_t offset, int64_t stride XPU_SITE_PARAMETER)
{
    simt::converge(offset * 4096 + stride XPU_SITE("load")); /* one tile for the wave */
    for (int c = 0; c < simt::patch<M, N>::columns; ++c)
        b.columns.load_line(c, from.template as<const T>(), offset + simt::patch<M, N>::column(c) * stride);
}

template <class T, class R, int M, int N, int K>
XPU_DEVICE void multiply(accumulator<R, M, N, K> &c, const matrix_a<T, M, N, K> &a,
                         const matrix_b<T, M, N, K> &b XPU_SITE_PARAMETER)
{
    using patch = simt::patch<M, N>;
    using operand = simt::operand<T>;
    static_assert(sizeof(typename operand::sum) == sizeof(R), "sums of int8_t are int32_t, those of half and bfloat16 float");
    simt::converge(0 XPU_SITE("multiply"));
    for (int w = 0; w < a.rows.words; ++w) {
        operand left[patch::rows], right[patch::columns];
        for (int r = 0; r < patch::rows; ++r) left[r].take(a.rows.word[r][w]);
        for (int j = 0; j < patch::columns; ++j) right[j].take(b.columns.word[j][w]);
        for (int i = 0; i < patch::count; ++i)
            c[i] = operand::multiplied(left[i / patch::columns], right[i % patch::columns], c[i]);
    }
}

} // namespace xpu

#endif
