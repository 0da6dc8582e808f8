/* A wave of AMD's on the host: its lanes run one after another, its matrix instructions as the ISA defines them.
 *
 * A lane's program runs from its beginning until it has made one matrix instruction more than the last time; when
 * all lanes have, that instruction is worked out from what all of them gave, and they begin again. So an
 * instruction sees the registers of the whole wave, as on the part, and nothing else of the lanes is shared.
 */
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace model {

#ifdef XPU_HIP_WMMA
constexpr int LANES = 32;
#else
constexpr int LANES = 64;
#endif
int lane, fault; /* of the running lane; 1 when a wave did what the part leaves open */

/* Where an element is: register and lane hold row i of A (column j of B) at k. */
enum kind { iu8_gfx11, f16_gfx11, iu8_gfx12, f16_gfx12, i8_mfma16, i8_mfma32, f16_mfma16, bf16_gfx11, bf16_gfx12,
            bf16_mfma16 };

/* Source: the layouts that AMD's matrix instruction calculator prints for these instructions. */
inline int k_of(kind what, int lane, int reg, int e)
{
    switch (what) {
    case iu8_gfx11: return 4 * reg + e;
    case f16_gfx11: case bf16_gfx11: return 2 * reg + e;
    case iu8_gfx12: case i8_mfma32: return 8 * (lane / 16) + 4 * reg + e;
    case f16_gfx12: case bf16_gfx12: return 8 * (reg / 2) + 4 * (lane / 16) + 2 * (reg % 2) + e;
    case i8_mfma16: return 4 * (lane / 16) + e;
    default: return 4 * (lane / 16) + 2 * reg + e;
    }
}
inline int row_of_sum(kind what, int lane, int reg)
{
    switch (what) {
    case iu8_gfx11: case f16_gfx11: case bf16_gfx11: return 2 * reg + lane / 16;
    case iu8_gfx12: case f16_gfx12: case bf16_gfx12: return reg + 8 * (lane / 16);
    default: return 4 * (lane / 16) + reg;
    }
}

struct given { kind what; uint32_t a[8], b[8], c[8]; int operands, sums; };
std::vector<std::vector<given>> made; /* [instruction][lane] */
std::vector<std::vector<std::vector<uint32_t>>> done;
size_t at;
struct not_yet {};

inline double element(kind what, uint32_t word, int e)
{
    if (what == iu8_gfx11 || what == iu8_gfx12 || what == i8_mfma16 || what == i8_mfma32) return (int8_t)(word >> 8 * e);
    const uint16_t bits = word >> 16 * e;
    if (what == bf16_gfx11 || what == bf16_gfx12 || what == bf16_mfma16) {
        const uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, 4);
        return f;
    }
    _Float16 f;
    memcpy(&f, &bits, 2);
    return (double)f;
}
inline bool is_whole(kind what) { return what == iu8_gfx11 || what == iu8_gfx12 || what == i8_mfma16 || what == i8_mfma32; }

/* What an instruction makes of the registers of all lanes. */
inline std::vector<std::vector<uint32_t>> worked_out(const std::vector<given> &lanes)
{
    const kind what = lanes[0].what;
    const int parts = is_whole(what) ? 4 : 2;
    double a[16][64], b[64][16];
    bool is_set[16][64] = {};
    for (int l = 0; l < LANES; ++l) {
        if (lanes[l].what != what) fault = 1;
        for (int r = 0; r < lanes[l].operands; ++r)
            for (int e = 0; e < parts; ++e) {
                const int k = k_of(what, l, r, e), line = l % 16;
                const double one = element(what, lanes[l].a[r], e), other = element(what, lanes[l].b[r], e);
                /* gfx11 takes a line from both halves of the wave, which have to hold the same. */
                if (is_set[line][k] && (a[line][k] != one || b[k][line] != other)) fault = 1;
                is_set[line][k] = true;
                a[line][k] = one;
                b[k][line] = other;
            }
    }
    int depth = 0;
    while (depth < 64 && is_set[0][depth]) ++depth;
    std::vector<std::vector<uint32_t>> out(LANES);
    for (int l = 0; l < LANES; ++l)
        for (int r = 0; r < lanes[l].sums; ++r) {
            const int i = row_of_sum(what, l, r), j = l % 16;
            double sum = 0;
            for (int k = 0; k < depth; ++k) sum += a[i][k] * b[k][j];
            uint32_t word = lanes[l].c[r];
            if (is_whole(what)) word += (uint32_t)(int64_t)sum;
            else {
                float f;
                memcpy(&f, &word, 4);
                f = (float)(f + sum);
                memcpy(&word, &f, 4);
            }
            out[l].push_back(word);
        }
    return out;
}

template <class A, class C> C perform(kind what, const A &a, const A &b, C c)
{
    if (at < done.size()) {
        memcpy(&c, done[at++][lane].data(), sizeof c);
        return c;
    }
    given one = {what, {}, {}, {}, sizeof a / 4, sizeof c / 4};
    memcpy(one.a, &a, sizeof a);
    memcpy(one.b, &b, sizeof b);
    memcpy(one.c, &c, sizeof c);
    made[at].push_back(one);
    throw not_yet();
}

inline void run_wave(const std::function<void()> &program)
{
    done.clear();
    made.clear();
    for (int finished = 0; finished < LANES;) {
        made.emplace_back();
        finished = 0;
        for (lane = 0; lane < LANES; ++lane)
            try {
                at = 0;
                program();
                ++finished;
            } catch (not_yet) {
            }
        if (finished == LANES) return;
        if (finished) fault = 1; /* some lanes made an instruction that others did not */
        if (fault) return;
        done.push_back(worked_out(made.back()));
    }
}

} // namespace model

inline void __builtin_amdgcn_sched_barrier(int) {}

/* The compiler's names for the instructions. */
#define MODEL_WMMA(name, what) \
    template <class A, class C> C name(A a, A b, C c) { return model::perform(model::what, a, b, c); }
#define MODEL_WMMA_BYTES(name, what) \
    template <class A, class C> C name(bool is_a_signed, A a, bool is_b_signed, A b, C c, bool) \
    { \
        if (!is_a_signed || !is_b_signed) model::fault = 1; \
        return model::perform(model::what, a, b, c); \
    }
#define MODEL_MFMA(name, what) \
    template <class A, class C> C name(A a, A b, C c, int, int, int) { return model::perform(model::what, a, b, c); }
MODEL_WMMA_BYTES(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32, iu8_gfx11)
MODEL_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32, f16_gfx11)
MODEL_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32, bf16_gfx11)
MODEL_WMMA_BYTES(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12, iu8_gfx12)
MODEL_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12, f16_gfx12)
MODEL_WMMA(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12, bf16_gfx12)
MODEL_MFMA(__builtin_amdgcn_mfma_i32_16x16x16i8, i8_mfma16)
MODEL_MFMA(__builtin_amdgcn_mfma_i32_16x16x32_i8, i8_mfma32)
MODEL_MFMA(__builtin_amdgcn_mfma_f32_16x16x16f16, f16_mfma16)
MODEL_MFMA(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k, bf16_mfma16)
