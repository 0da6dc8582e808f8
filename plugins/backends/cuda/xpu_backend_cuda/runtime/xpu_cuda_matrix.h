/* The native tier of cooperative matrices: mma instructions on registers that ldmatrix fills.
 *
 * A lane is number 4 g + t. Of an operand whose lines (rows of a, columns of b) run along k, in pieces of
 * 16 bytes, it holds the word 4 t of line g: an instruction takes one or two pieces of 8 or 16 lines.
 *
 *   16 x 16   two instructions of 16 rows and 8 columns
 *    8 x 16   one, turned round: its 16 rows are the columns here
 *
 * Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 / k32", and ldmatrix.
 */
#ifndef XPU_CUDA_MATRIX_H
#define XPU_CUDA_MATRIX_H

namespace xpu {

namespace simt {
/* What an instruction multiplies: `wide` are the registers of its 16 lines, `narrow` those of its 8. */
template <class T, int bytes> struct mma;

/* None of these products is volatile: it has no effect but its sums, and one whose sums nobody reads may go. All
 * lanes make it all the same, also where only some use the sums: the tests look for it in the generated code. */
template <> struct mma<int8_t, 32> {
    static XPU_DEVICE void add(int32_t *c, const uint32_t *wide, const uint32_t *narrow)
    {
        int32_t d[4]; /* not c itself: sums that begin at 0 then need no registers set */
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
            : "r"(wide[0]), "r"(wide[1]), "r"(wide[2]), "r"(wide[3]), "r"(narrow[0]), "r"(narrow[1]),
              "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
        for (int i = 0; i < 4; ++i) c[i] = d[i];
    }
};
template <> struct mma<int8_t, 16> {
    static XPU_DEVICE void add(int32_t *c, const uint32_t *wide, const uint32_t *narrow)
    {
        int32_t d[4]; /* not c itself: sums that begin at 0 then need no registers set */
        asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
            : "r"(wide[0]), "r"(wide[1]), "r"(narrow[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
        for (int i = 0; i < 4; ++i) c[i] = d[i];
    }
};
template <> struct mma<half, 32> {
    static XPU_DEVICE void add(float *c, const uint32_t *wide, const uint32_t *narrow)
    {
        float d[4]; /* not c itself: sums that begin at 0 then need no registers set */
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(wide[0]), "r"(wide[1]), "r"(wide[2]), "r"(wide[3]), "r"(narrow[0]), "r"(narrow[1]),
              "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
        for (int i = 0; i < 4; ++i) c[i] = d[i];
    }
};
template <> struct mma<bfloat16, 32> {
    static XPU_DEVICE void add(float *c, const uint32_t *wide, const uint32_t *narrow)
    {
        float d[4]; /* not c itself: sums that begin at 0 then need no registers set */
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(wide[0]), "r"(wide[1]), "r"(wide[2]), "r"(wide[3]), "r"(narrow[0]), "r"(narrow[1]),
              "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
        for (int i = 0; i < 4; ++i) c[i] = d[i];
    }
};

/* Lines of an operand, and the instructions along k that they make. */
template <class T, int lines, int K> struct fragment {
    static constexpr int bytes = K * (int)sizeof(T), step = bytes % 32 == 0 ? 32 : 16, steps = bytes / step;
    static constexpr int eights = lines / 8, pieces = step / 16;
    static constexpr int count = steps * pieces * eights;
    static_assert(bytes % 16 == 0, "a line of the tile is a multiple of 16 bytes");

    static XPU_DEVICE int k_of(int piece) { return (lane() % 4 * 4 + piece * 16) / (int)sizeof(T); }
};

template <int count> struct loaded;
template <> struct loaded<1> {
    static XPU_DEVICE void from(uint32_t *r, uint32_t place)
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(place) : "memory");
    }
};
template <> struct loaded<2> {
    static XPU_DEVICE void from(uint32_t *r, uint32_t place)
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(r[0]), "=r"(r[1]) : "r"(place) : "memory");
    }
};
template <> struct loaded<4> {
    static XPU_DEVICE void from(uint32_t *r, uint32_t place)
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place) : "memory");
    }
};

/* 16 lines whose registers go line by line within a piece: the 16 rows of an instruction. */
template <class T, int K> struct wide : fragment<T, 16, K> {
    using base = fragment<T, 16, K>;
    uint32_t word[base::count]; /* [step][piece][eight] */

    XPU_DEVICE uint32_t &at(int i) { return word[i]; }
    static constexpr int lines = 2;
    static XPU_DEVICE int place(int i) { return lane() / 4 + i % 2 * 8; }
    static XPU_DEVICE int line(int i) { return i % 2; }
    static XPU_DEVICE int first(int l) { return l; }
    static XPU_DEVICE int k(int i) { return base::k_of(i / 2); }
    template <class S> XPU_DEVICE void load(const S &from, int64_t offset, int64_t stride)
    {
        const int l = lane(), row = l % 16, piece = l / 16;
        for (int s = 0; s < base::steps; ++s)
            loaded<2 * base::pieces>::from(
                word + s * 2 * base::pieces,
                from.address(offset + row * stride + (s * base::step + piece % base::pieces * 16) / (int)sizeof(T)));
    }
};

/* 8 or 16 lines, eight for each instruction, the pieces of an eight side by side. */
template <class T, int all, int K> struct narrow : fragment<T, all, K> {
    using base = fragment<T, all, K>;
    uint32_t word[base::count]; /* [step][eight][piece] */

    XPU_DEVICE uint32_t &at(int i) { return word[i]; }
    static constexpr int lines = base::eights;
    static XPU_DEVICE int place(int i) { return lane() / 4 + line(i) * 8; }
    static XPU_DEVICE int line(int i) { return i / base::pieces % base::eights; }
    static XPU_DEVICE int first(int l) { return l * base::pieces; }
    static XPU_DEVICE int k(int i)
    {
        return base::k_of(i % base::pieces + i / (base::pieces * base::eights) * base::pieces);
    }
    template <class S> XPU_DEVICE void load(const S &from, int64_t offset, int64_t stride)
    {
        constexpr int at_once = base::pieces * base::eights;
        const int l = lane(), piece = l / 8 % base::pieces, row = l % 8 + l / (8 * base::pieces) % base::eights * 8;
        for (int s = 0; s < base::steps; ++s)
            loaded<at_once>::from(word + s * at_once,
                                  from.address(offset + row * stride + (s * base::step + piece * 16) / (int)sizeof(T)));
    }
};

template <class R, int K> struct native_sums<R, 16, 16, K> { /* [half of the columns][4] */
    static constexpr int count = 8;
    R sum[count];
    XPU_DEVICE R &at(int i) { return sum[i]; }
    XPU_DEVICE const R &at(int i) const { return sum[i]; }
    static XPU_DEVICE int row(int i) { return lane() / 4 + i / 2 % 2 * 8; }
    static XPU_DEVICE int column(int i) { return i / 4 * 8 + lane() % 4 * 2 + i % 2; }
};

template <class R, int K> struct native_sums<R, 8, 16, K> {
    static constexpr int count = 4;
    R sum[count];
    XPU_DEVICE R &at(int i) { return sum[i]; }
    XPU_DEVICE const R &at(int i) const { return sum[i]; }
    static XPU_DEVICE int row(int i) { return lane() % 4 * 2 + i % 2; }
    static XPU_DEVICE int column(int i) { return lane() / 4 + i / 2 * 8; }
};

template <class Base> struct rows_of : Base {
    static XPU_DEVICE int row(int i) { return Base::place(i); }
};
template <class Base> struct columns_of : Base {
    static XPU_DEVICE int column(int i) { return Base::place(i); }
};

template <class T, int K> struct native_a<T, 16, 16, K> : rows_of<wide<T, K>> {};
template <class T, int K> struct native_b<T, 16, 16, K> : columns_of<narrow<T, 16, K>> {};
template <class T, int K> struct native_a<T, 8, 16, K> : rows_of<narrow<T, 8, K>> {};
template <class T, int K> struct native_b<T, 8, 16, K> : columns_of<wide<T, K>> {};

template <class T, int K> struct native_product<T, 16, 16, K> {
    template <class C, class A, class B> static XPU_DEVICE void add(C &c, const A &a, const B &b XPU_SITE_TYPE)
    {
        using f = fragment<T, 16, K>;
        for (int s = 0; s < f::steps; ++s)
            for (int h = 0; h < 2; ++h)
                mma<T, f::step>::add(c.sum + h * 4, a.word + s * 2 * f::pieces, b.word + (s * 2 + h) * f::pieces);
    }
};

template <class T, int K> struct native_product<T, 8, 16, K> {
    template <class C, class A, class B> static XPU_DEVICE void add(C &c, const A &a, const B &b XPU_SITE_TYPE)
    {
        using f = fragment<T, 8, K>;
        for (int s = 0; s < f::steps; ++s)
            mma<T, f::step>::add(c.sum, b.word + s * 2 * f::pieces, a.word + s * f::pieces);
    }
};
} // namespace simt

} // namespace xpu

#endif
