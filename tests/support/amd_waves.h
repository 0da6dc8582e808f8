/* The matrix instructions of AMD's parts as functions of the emulator: each lane takes what it needs of the others.
 * It stands before xpu_hip_matrix.h, in the place of the emulator's own native tier.
 */
namespace amd {
using namespace xpu;
constexpr emulator::site here = {"matrix instruction", "amd_waves.h", 1};

/* c += a · b. The line of a lane is l % 16; which k stand in a register is the same in a and b, so that products of
 * equal registers are summed. `row` tells which row register v of the sums is of in this lane. */
template <class T, int parts, class A, class C, class Row> C sums(A a, A b, C c, Row row)
{
    constexpr int words = sizeof(A) / 4, count = sizeof(C) / 4;
    uint32_t left[words], right[words];
    typename simt::operand<T>::sum sum[count];
    __builtin_memcpy(left, &a, sizeof a);
    __builtin_memcpy(right, &b, sizeof b);
    __builtin_memcpy(sum, &c, sizeof c);
    for (int v = 0; v < count; ++v)
        for (int part = 0; part < parts; ++part)
            for (int r = 0; r < words; ++r) {
                simt::operand<T> of_row, of_column;
                of_row.take(simt::exchange(left[r], row(v) + 16 * part, here));
                of_column.take(simt::exchange(right[r], lane() % 16 + 16 * part, here));
                sum[v] = simt::operand<T>::multiplied(of_row, of_column, sum[v]);
            }
    __builtin_memcpy(&c, sum, sizeof c);
    return c;
}
inline int in_turn(int v) { return 2 * v + lane() / 16; }
inline int in_halves(int v) { return v + 8 * (lane() / 16); }
inline int in_quarters(int v) { return v + 4 * (lane() / 16); }
} // namespace amd

#define AMD_WMMA(name, T, parts, row) \
    template <class A, class C> C name(A a, A b, C c) { return amd::sums<T, parts>(a, b, c, amd::row); }
#define AMD_WMMA_BYTES(name, parts, row) \
    template <class A, class C> C name(bool, A a, bool, A b, C c, bool) \
    { \
        return amd::sums<int8_t, parts>(a, b, c, amd::row); \
    }
#define AMD_MFMA(name, T) \
    template <class A, class C> C name(A a, A b, C c, int, int, int) { return amd::sums<T, 4>(a, b, c, amd::in_quarters); }
AMD_WMMA_BYTES(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32, 1, in_turn)
AMD_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32, xpu::half, 1, in_turn)
AMD_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32, xpu::bfloat16, 1, in_turn)
AMD_WMMA_BYTES(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12, 2, in_halves)
AMD_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12, xpu::half, 2, in_halves)
AMD_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12, xpu::bfloat16, 2, in_halves)
AMD_MFMA(__builtin_amdgcn_mfma_i32_16x16x16i8, int8_t)
AMD_MFMA(__builtin_amdgcn_mfma_i32_16x16x32_i8, int8_t)
AMD_MFMA(__builtin_amdgcn_mfma_f32_16x16x16f16, xpu::half)
AMD_MFMA(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k, xpu::bfloat16)
inline void __builtin_amdgcn_sched_barrier(int) {}
