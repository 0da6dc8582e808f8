/* The native tier of cooperative matrices: instructions that add the product of a 16 x 16 and a 16 x 16 tile.
 *
 *   XPU_HIP_WMMA  11 or 12: v_wmma of gfx11 or gfx12, waves of 32 lanes
 *   XPU_HIP_MFMA  908, 910 or 940: v_mfma of gfx908, of gfx90a, or of gfx942, waves of 64 lanes
 *
 * A lane has a line (row of a, column of b), l % 16, and a part, l / 16. Of each 16 k of its line it holds as many
 * as one of the parts, of which gfx11 has one, the same in both halves of the wave. Which k stand where within an
 * instruction makes no difference as long as a and b have the same, so they stand in the order of memory.
 * A register of sums is of column l % 16 and of one row: gfx11 deals rows out to the parts in turn, the others
 * give each part a run of them.
 *
 * M = 8 takes the same instructions with every row twice: the eight rows are in the first half of a lane's
 * registers of sums, and the other half is needed for no longer than the instruction.
 *
 * Source: AMD, "RDNA3" and "RDNA4" Instruction Set Architecture, Wave Matrix Multiply Accumulate; "CDNA" to "CDNA3"
 * Instruction Set Architecture, Matrix Arithmetic Instructions. The layouts are as AMD's matrix instruction
 * calculator prints them.
 */
#ifndef XPU_HIP_MATRIX_H
#define XPU_HIP_MATRIX_H

#if XPU_HIP_WMMA || XPU_HIP_MFMA

namespace xpu {
namespace simt {

constexpr int sum_parts = wave_width / 16, sum_registers = 16 / sum_parts;
#if XPU_HIP_WMMA == 11
constexpr int operand_parts = 1;
constexpr bool rows_in_turn = true;
#else
constexpr int operand_parts = sum_parts;
constexpr bool rows_in_turn = false;
#endif
/* Words of a lane that are 16 k of its line. */
template <class T> constexpr int step_words = 4 * (int)sizeof(T) / operand_parts;

template <class R> struct sums_of_instruction {
    typedef R type __attribute__((vector_size(sum_registers * 4)));
};

/* Some words of an operand, as the instruction's type of them. */
template <class To, int count> XPU_DEVICE To packed(const uint32_t *word)
{
    vec<uint32_t, count> some;
    for (int i = 0; i < count; ++i) some.element[i] = word[i];
    return bits<To>(some);
}

/* Keeps a product where it is written. It reads no memory, so that the compiler moves it behind barriers and the loads
 * of operands to come, until all that it multiplies is in registers at once. With v_wmma the scheduler does so, too: it
 * takes all 256 registers before it stops. (clang 22, q4k_tile: a tile of 64 x 128 halves spilled 2.8 KB of each thread
 * on gfx1151, and none with both; one of 64 x 64 bytes had 312 registers on gfx942, and has 172.) */
template <class C> XPU_DEVICE void stay(C &c)
{
#ifdef __AMDGCN__ /* elsewhere there are no such registers */
    asm volatile("" : "+v"(c));
#endif
#if XPU_HIP_WMMA
    __builtin_amdgcn_sched_barrier(0);
#endif
}

/* add(c, a, b): over the 16 k of step_words<T> words of each. */
template <class T> struct instruction;

template <class T, int steps> struct all_steps {
    template <class C> static XPU_DEVICE void add(C &c, const uint32_t *a, const uint32_t *b)
    {
        for (int s = 0; s < steps; ++s) instruction<T>::add(c, a + s * step_words<T>, b + s * step_words<T>);
    }
};

} // namespace simt
} // namespace xpu

#if XPU_HIP_WMMA
#include "xpu_hip_wmma.h"
#else
#include "xpu_hip_mfma.h"
#endif

namespace xpu {
namespace simt {

template <class T, int K> struct native_line {
    static constexpr int words = step_words<T>, steps = K / 16, count = steps * words, lines = 1;
    static_assert(K % 16 == 0, "an instruction takes 16 k");
    uint32_t word[count]; /* [step][] */

    XPU_DEVICE uint32_t &at(int i) { return word[i]; }
    static XPU_DEVICE int first() { return operand_parts == 1 ? 0 : lane() / 16 * (16 / operand_parts); }
    static XPU_DEVICE int k(int i) { return i / words * 16 + first() + i % words * (4 / (int)sizeof(T)); }
    static XPU_DEVICE int line(int) { return 0; }
    static XPU_DEVICE int first(int) { return 0; }
    template <class S> XPU_DEVICE void load_line(const S &from, int64_t start)
    {
        constexpr int at_once = words < 4 ? words : 4;
        for (int i = 0; i < count; i += at_once) {
            const vec<uint32_t, at_once> some = from.template load<vec<uint32_t, at_once>>(start + k(i));
            for (int j = 0; j < at_once; ++j) word[i + j] = some.element[j];
        }
    }
};

template <int M> struct sum_rows {
    static constexpr int count = M / sum_parts; /* registers of a lane */
    static_assert(M == 8 || M == 16, "an instruction takes 16 rows, or 8 twice");
    static XPU_DEVICE int of(int part, int i) { return rows_in_turn ? i * sum_parts + part : part * count + i; }
    /* The row that this lane holds of a, so that the sums are of the rows above. */
    static XPU_DEVICE int line()
    {
        const int l = lane() % 16;
        return rows_in_turn ? of(l % sum_parts, l / sum_parts % count) : of(l / sum_registers, l % sum_registers % count);
    }
};

template <class T, int M, int K> struct native_a<T, M, 16, K> : native_line<T, K> {
    static XPU_DEVICE int row(int) { return sum_rows<M>::line(); }
    template <class S> XPU_DEVICE void load(const S &from, int64_t offset, int64_t stride)
    {
        this->load_line(from, offset + sum_rows<M>::line() * stride);
    }
};

template <class T, int M, int K> struct native_b<T, M, 16, K> : native_line<T, K> {
    static XPU_DEVICE int column(int) { return lane() % 16; }
    template <class S> XPU_DEVICE void load(const S &from, int64_t offset, int64_t stride)
    {
        this->load_line(from, offset + lane() % 16 * stride);
    }
};

template <class R, int M, int K> struct native_sums<R, M, 16, K> {
    static constexpr int count = sum_rows<M>::count;
    R sum[count];

    XPU_DEVICE R &at(int i) { return sum[i]; }
    XPU_DEVICE const R &at(int i) const { return sum[i]; }
    static XPU_DEVICE int row(int i) { return sum_rows<M>::of(lane() / 16, i); }
    static XPU_DEVICE int column(int) { return lane() % 16; }
};

template <class T, int M, int K> struct native_product<T, M, 16, K> {
    template <class C, class A, class B> static XPU_DEVICE void add(C &c, const A &a, const B &b XPU_SITE_TYPE)
    {
        typename sums_of_instruction<typename operand<T>::sum>::type all; /* of rows that are no sums it may be anything */
        for (int i = 0; i < C::count; ++i) all[i] = c.sum[i];
        all_steps<T, K / 16>::add(all, a.word, b.word);
        for (int i = 0; i < C::count; ++i) c.sum[i] = all[i];
        stay(all);
    }
};
} // namespace simt
} // namespace xpu

#endif

#endif
