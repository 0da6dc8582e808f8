/* Cooperative matrices of the dialect `simt`: which tier multiplies a shape. xpu_simt_matrix.h includes it.
 *
 * XPU_MATRIX_SHAPES lists the shapes that the target has instructions for, {element, M, N, K}, with a comma
 * behind each; elements are numbered as by type_number. A shape that is listed is native, every other one the
 * software tile. xpu.spec.in_tiers gives the macro and sees to it that all matrices of one M and N in a kernel
 * are of one tier; a backend that has native shapes compiles through it.
 *
 * What a source uses is kept in the object as a symbol for each shape and tier: an object of one byte that no
 * instruction touches.
 */
#ifndef XPU_SIMT_TIERS_H
#define XPU_SIMT_TIERS_H

#ifndef XPU_MATRIX_SHAPES
#define XPU_MATRIX_SHAPES
#endif

namespace xpu {

namespace simt {
template <class T> constexpr int type_number = -1;
template <> constexpr int type_number<int8_t> = 0;
template <> constexpr int type_number<half> = 1;
template <> constexpr int type_number<bfloat16> = 2;
template <> constexpr int type_number<int32_t> = 3; /* the sums of 0 */
template <> constexpr int type_number<float> = 4;   /* the sums of 1 and 2 */

constexpr bool has_shape(int element, int m, int n, int k)
{
    struct shape { int element, m, n, k; };
    const shape shapes[] = {XPU_MATRIX_SHAPES {-1, 0, 0, 0}};
    for (const shape &one : shapes)
        if (one.element == element && one.m == m && one.n == n && one.k == k) return true;
    return false;
}

/* Whether matrices of a shape are native; sums are where any of their operands are. */
constexpr bool is_native(int type, int m, int n, int k)
{
    if (type == 3) return has_shape(0, m, n, k);
    if (type == 4) return has_shape(1, m, n, k) || has_shape(2, m, n, k);
    return has_shape(type, m, n, k);
}

/* What xpu.spec.in_tiers reads from the symbols of an object. */
template <int type, int M, int N, int K, bool native> XPU_KEPT char matrix_use = 0;

template <class T, int M, int N, int K> XPU_DEVICE void note_use()
{
    constexpr int type = type_number<T>;
    static_assert(type >= 0, "matrices are of int8_t, half or bfloat16, their sums of int32_t or float");
    (void)&matrix_use<type, M, N, K, is_native(type, M, N, K)>;
}

template <bool first, class A, class B> struct either { using type = A; };
template <class A, class B> struct either<false, A, B> { using type = B; };
} // namespace simt

} // namespace xpu

#endif
