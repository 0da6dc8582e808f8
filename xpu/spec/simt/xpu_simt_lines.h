/* Products with lines that a block shares: asynchronous where a part multiplies so. xpu_simt_common.h includes it.
 *
 * Lines are of 64 numbers of 16 bits, 128 bytes, and begin at a multiple of 1024 bytes of the shared memory. Piece
 * p of a line, of 8 numbers, stands where piece p ^ i % 8 would, i being the line's number: so neither neighbouring
 * lines nor neighbouring pieces of one lie in the same banks. A kernel with lines defines XPU_SHARED_ALIGNMENT, what
 * its arrays in shared memory begin at a multiple of, as 1024 before it includes anything.
 *
 * A wave multiplies 16 rows of its own with 16 N lines. All waves of a block do it at the same place; its threads are
 * a multiple of 128. Who has written lines calls publish_lines() before the barrier behind which they are multiplied.
 * Once multiply_wait<L>() has come back, all products of the wave but the last L are through: their rows are free for
 * others, their lines behind the barrier that follows. Sums are there behind multiply_end(). Rows and sums are used by
 * nothing else before.
 *
 * A backend whose part has instructions for this defines XPU_NATIVE_LINES and supplies all but line_place, in
 * xpu::simt; elsewhere each wave multiplies for itself, at once. One that looks at what a kernel does defines
 * XPU_WATCHED_LINES and supplies publish_lines, multiply_wait and multiply_end after this file, in xpu, and
 * simt::multiply_watched, which calls multiply_at_once.
 */
#ifndef XPU_SIMT_LINES_H
#define XPU_SIMT_LINES_H

#ifndef XPU_SHARED_ALIGNMENT
#define XPU_SHARED_ALIGNMENT 16
#endif

namespace xpu {

constexpr int line_length = 64;

/* Where number k of a line is, in numbers from the first line on. */
XPU_DEVICE int line_place(int line, int k) { return line * line_length + ((k / 8 ^ line % 8) * 8 | k % 8); }

#ifdef XPU_NATIVE_LINES
namespace simt {
XPU_DEVICE void publish_lines();
template <int L> XPU_DEVICE void multiply_wait();
/* `lines` is their address in the shared memory. */
template <class T, int N>
XPU_DEVICE void multiply_async(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a, uint32_t lines,
                               int k);
template <int N> XPU_DEVICE void multiply_end(accumulator<float, 16, 16, 16> (&c)[N]);
} // namespace simt
XPU_DEVICE void publish_lines() { simt::publish_lines(); }
template <int L> XPU_DEVICE void multiply_wait() { simt::multiply_wait<L>(); }
template <int N> XPU_DEVICE void multiply_end(accumulator<float, 16, 16, 16> (&c)[N])
{
    simt::multiply_wait<0>();
    simt::multiply_end(c);
}
#elif !defined XPU_WATCHED_LINES
XPU_DEVICE void publish_lines() {}
template <int L> XPU_DEVICE void multiply_wait() {}
template <int N> XPU_DEVICE void multiply_end(accumulator<float, 16, 16, 16> (&)[N]) {}
#endif

namespace simt {
#ifdef XPU_WATCHED_LINES
template <int N, class T>
XPU_DEVICE void multiply_watched(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a,
                                 const shared<const T> &from, int k XPU_SITE_TYPE);
#endif
template <int N, class T>
XPU_DEVICE void multiply_at_once(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a,
                                 const shared<const T> &from, int k XPU_SITE_TYPE)
{
    for (int j = 0; j < N; ++j) {
        matrix_b<T, 16, 16, 16> b;
        for (int i = 0; i < b.count; ++i)
            b[i] = from.template load<uint32_t>(line_place(j * 16 + b.column(i), k + b.k(i)));
        multiplied(c[j], a, b XPU_SITE_PASSED);
    }
}
} // namespace simt

/* c[j] += a · b, b being numbers k to k + 15 of lines 16 j to 16 j + 15 as columns; k is 0, 16, 32 or 48. */
template <int N, class T, class S>
XPU_DEVICE void multiply_async(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a,
                               const shared<S> &lines, int k XPU_SITE_PARAMETER)
{
    static_assert(sizeof(T) == 2, "lines are of numbers of 16 bits");
    static_assert(N == 1 || N == 2 || N == 4 || N == 8, "16, 32, 64 or 128 lines are multiplied at once");
    static_assert(N > 0 && XPU_THREADS % 128 == 0, "128 threads of a block multiply together");
    static_assert(N > 0 && XPU_SHARED_ALIGNMENT % 1024 == 0,
                  "lines begin at multiples of 1024 bytes: define XPU_SHARED_ALIGNMENT as 1024 before any include");
    const shared<const T> from = lines.template as<const T>();
#ifdef XPU_NATIVE_LINES
    if constexpr (matrix_a<T, 16, 16, 16>::is_native) { /* the sums of a group that is demoted lie otherwise */
        simt::note_use<T, 16, 16, 16>();
        simt::multiply_async(c, a, from.address(0), k);
    } else
#endif
#ifdef XPU_WATCHED_LINES
        simt::multiply_watched(c, a, from, k XPU_SITE("multiply_async"));
#else
        simt::multiply_at_once(c, a, from, k XPU_SITE("multiply_async"));
#endif
}

} // namespace xpu

#endif
