/* Cooperative matrices of the dialect `simt`. xpu_simt_common.h includes it.
 *
 * c (M, N) += a (M, K) · b (K, N). In shared memory both operands run along k: a (i, k) at
 * offset + i * stride + k, b (k, j) at offset + j * stride + k, in elements. Rows begin at multiples of 16 bytes.
 *
 * A tier is four templates. The software tier's are below; a backend with native shapes specialises for them, in
 * xpu::simt and after this file, with the same members:
 *   native_a, native_b <T, M, N, K>   count words of a lane: at(i), row(i) or column(i), k(i), load(...); `lines`
 *                                     rows or columns that they are of: line(i), first(l)
 *   native_sums <R, M, N, K>          count sums of a lane: at(i), row(i), column(i)
 *   native_product <T, M, N, K>       add(sums, a, b XPU_SITE_TYPE)
 * All native sums of one M and N lie alike in the lanes, and words of K = 32 go on where those of K = 16 end.
 */
#ifndef XPU_SIMT_MATRIX_H
#define XPU_SIMT_MATRIX_H

#include "xpu_simt_tiers.h"

namespace xpu {

namespace simt {
template <class T, int M, int N, int K> struct native_a;
template <class T, int M, int N, int K> struct native_b;
template <class R, int M, int N, int K> struct native_sums;
template <class T, int M, int N, int K> struct native_product;

/* The sums of a wave in the software tier, count of them in each lane: a patch of rows by columns, spread so that
 * neighbouring lanes have neighbouring columns. A lane loads the rows of a and the columns of b that its patch
 * needs, and multiplies without the others. */
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

/* Lines of K elements each, as words. */
template <class T, int K, int held> struct software_lines {
    static constexpr int words = K * (int)sizeof(T) / 4, lines = held, count = lines * words;
    static_assert(K * sizeof(T) % 16 == 0, "a row of the tile is a multiple of 16 bytes");
    uint32_t word[lines][words];

    XPU_DEVICE uint32_t &at(int i) { return word[i / words][i % words]; }
    static XPU_DEVICE int k(int i) { return i % words * 4 / (int)sizeof(T); }
    static constexpr XPU_DEVICE int line(int i) { return i / words; }
    static constexpr XPU_DEVICE int first(int l) { return l * words; }
    template <class S> XPU_DEVICE void load_line(int at, const S &from, int64_t start)
    {
        for (int w = 0; w < words; w += 4) {
            const vec<uint32_t, 4> four = from.template load<vec<uint32_t, 4>>(start + w * 4 / (int)sizeof(T));
            for (int i = 0; i < 4; ++i) word[at][w + i] = four[i];
        }
    }
};

template <class T, int M, int N, int K> struct software_a : software_lines<T, K, patch<M, N>::rows> {
    static XPU_DEVICE int row(int i) { return patch<M, N>::row(i / software_a::words); }
    template <class S> XPU_DEVICE void load(const S &from, int64_t offset, int64_t stride)
    {
        for (int r = 0; r < patch<M, N>::rows; ++r) this->load_line(r, from, offset + patch<M, N>::row(r) * stride);
    }
};

template <class T, int M, int N, int K> struct software_b : software_lines<T, K, patch<M, N>::columns> {
    static XPU_DEVICE int column(int i) { return patch<M, N>::column(i / software_b::words); }
    template <class S> XPU_DEVICE void load(const S &from, int64_t offset, int64_t stride)
    {
        for (int c = 0; c < patch<M, N>::columns; ++c)
            this->load_line(c, from, offset + patch<M, N>::column(c) * stride);
    }
};

template <class R, int M, int N, int K> struct software_sums : patch<M, N> {
    using base = patch<M, N>;
    R sum[base::count];
    XPU_DEVICE R &at(int i) { return sum[XPU_CHECKED_SUM(sum, i, base::count)]; }
    XPU_DEVICE const R &at(int i) const { return sum[XPU_CHECKED_SUM(sum, i, base::count)]; }
    static XPU_DEVICE int row(int i) { return base::row(i / base::columns); }
    static XPU_DEVICE int column(int i) { return base::column(i % base::columns); }
};

template <class T, int M, int N, int K> struct software_product {
    template <class C, class A, class B> static XPU_DEVICE void add(C &c, const A &a, const B &b XPU_SITE_TYPE)
    {
        using patch = simt::patch<M, N>;
        using operand = simt::operand<T>;
        simt::converge(0 XPU_SITE_PASSED);
        for (int w = 0; w < A::words; ++w) {
            operand left[patch::rows], right[patch::columns];
            for (int r = 0; r < patch::rows; ++r) left[r].take(a.word[r][w]);
            for (int j = 0; j < patch::columns; ++j) right[j].take(b.word[j][w]);
            for (int i = 0; i < patch::count; ++i)
                c.at(i) = operand::multiplied(left[i / patch::columns], right[i % patch::columns], c.at(i));
        }
    }
};

/* Operands and sums of two tiers: in_tiers compiles such a source again, and nobody runs this. */
struct no_product {
    template <class C, class A, class B> static XPU_DEVICE void add(C &, const A &, const B & XPU_SITE_TYPE) {}
};
} // namespace simt

/* Operands. `[i]` is a word of neighbouring k, the first in the lowest bits, of row or column and k(i). The words of a
 * lane are of `lines` rows or columns: word i is of number line(i), whose first word is first(line(i)). */
template <class T, int M, int N, int K> struct matrix_a {
    static constexpr bool is_native = simt::is_native(simt::type_number<T>, M, N, K);
    using tier = typename simt::either<is_native, simt::native_a<T, M, N, K>, simt::software_a<T, M, N, K>>::type;
    static constexpr int count = tier::count, lines = tier::lines; /* words of one lane, and of how many rows */
    tier held;
    XPU_DEVICE uint32_t &operator[](int i) { return simt::note_use<T, M, N, K>(), held.at(i); }
    XPU_DEVICE int row(int i) const { return simt::note_use<T, M, N, K>(), tier::row(i); }
    XPU_DEVICE int k(int i) const { return tier::k(i); }
    XPU_DEVICE int line(int i) const { return tier::line(i); }
    XPU_DEVICE int first(int l) const { return tier::first(l); }
};

template <class T, int M, int N, int K> struct matrix_b {
    static constexpr bool is_native = simt::is_native(simt::type_number<T>, M, N, K);
    using tier = typename simt::either<is_native, simt::native_b<T, M, N, K>, simt::software_b<T, M, N, K>>::type;
    static constexpr int count = tier::count, lines = tier::lines;
    tier held;
    XPU_DEVICE uint32_t &operator[](int i) { return simt::note_use<T, M, N, K>(), held.at(i); }
    XPU_DEVICE int column(int i) const { return simt::note_use<T, M, N, K>(), tier::column(i); }
    XPU_DEVICE int k(int i) const { return tier::k(i); }
    XPU_DEVICE int line(int i) const { return tier::line(i); }
    XPU_DEVICE int first(int l) const { return tier::first(l); }
};

template <class R, int M, int N, int K> struct accumulator {
    static constexpr bool is_native = simt::is_native(simt::type_number<R>, M, N, K);
    using tier = typename simt::either<is_native, simt::native_sums<R, M, N, K>, simt::software_sums<R, M, N, K>>::type;
    static constexpr int count = tier::count; /* sums of one lane */
    tier held;
    XPU_DEVICE R &operator[](int i) { return held.at(i); }
    XPU_DEVICE const R &operator[](int i) const { return held.at(i); }
    XPU_DEVICE int row(int i) const { return simt::note_use<R, M, N, K>(), tier::row(i); }
    XPU_DEVICE int column(int i) const { return simt::note_use<R, M, N, K>(), tier::column(i); }
};

template <class R, int M, int N, int K> XPU_DEVICE void fill(accumulator<R, M, N, K> &c, R v)
{
    simt::note_use<R, M, N, K>();
    for (int i = 0; i < c.count; ++i) c[i] = v;
}

template <class T, int M, int N, int K, class S>
XPU_DEVICE void load(matrix_a<T, M, N, K> &a, const shared<S> &from, int64_t offset, int64_t stride XPU_SITE_PARAMETER)
{
    simt::note_use<T, M, N, K>();
    simt::converge(offset * 4096 + stride XPU_SITE("load")); /* one tile for the wave */
    a.held.load(from.template as<const T>(), offset, stride);
}

template <class T, int M, int N, int K, class S>
XPU_DEVICE void load(matrix_b<T, M, N, K> &b, const shared<S> &from, int64_t offset, int64_t stride XPU_SITE_PARAMETER)
{
    simt::note_use<T, M, N, K>();
    simt::converge(offset * 4096 + stride XPU_SITE("load")); /* one tile for the wave */
    b.held.load(from.template as<const T>(), offset, stride);
}

namespace simt {
template <class T, class R, int M, int N, int K>
XPU_DEVICE void multiplied(accumulator<R, M, N, K> &c, const matrix_a<T, M, N, K> &a,
                           const matrix_b<T, M, N, K> &b XPU_SITE_TYPE)
{
    static_assert(type_number<R> == type_number<typename operand<T>::sum>,
                  "sums of int8_t are int32_t, those of half and bfloat16 float");
    note_use<T, M, N, K>();
    note_use<R, M, N, K>();
    constexpr bool native = matrix_a<T, M, N, K>::is_native, is_one_tier = native == accumulator<R, M, N, K>::is_native;
    using own = typename either<native, native_product<T, M, N, K>, software_product<T, M, N, K>>::type;
    using product = typename either<is_one_tier, own, no_product>::type;
    product::add(c.held, a.held, b.held XPU_SITE_PASSED);
}
} // namespace simt

template <class T, class R, int M, int N, int K>
XPU_DEVICE void multiply(accumulator<R, M, N, K> &c, const matrix_a<T, M, N, K> &a,
                         const matrix_b<T, M, N, K> &b XPU_SITE_PARAMETER)
{
    simt::multiplied(c, a, b XPU_SITE("multiply"));
}

} // namespace xpu

#endif
