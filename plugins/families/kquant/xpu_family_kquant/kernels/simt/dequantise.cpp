/* Prepared weights to bfloat16, row by row, before each call of a library that multiplies them.
 *
 * buffers: prepared (stored.h), staged (n, k) bfloat16 (both 16-byte aligned)      sizes: n, k
 * grid:    x: groups, y: pairs of k blocks
 *
 * 16 threads take a column's block: each two words of a part and, in both runs, the 8 k that come of them. All
 * loads of a thread come before its first store, so that memory is busy with both blocks of the pair.
 */
#include "stored.h"

constexpr int PAIR = 2, COLUMN_THREADS = XPU_THREADS / GROUP;
using two_words = xpu::vec<uint32_t, 2>;

/* A byte as a float: 2^23 + b has b in its lowest bits. */
inline float float_of_byte(uint32_t word, int i)
{
    union { uint32_t bits; float value; } both;
    both.bits = xpu::byte_of(word, i) | 0x4b000000u;
    return both.value - (HAS_MINS ? 0x1p23f : 0x1.00004p23f); /* Q6_K: 32 less */
}

/* What a thread needs of a column's block; Q6_K: of the head the scales of its quarter. */
struct work {
    two_words low, high;
    head h;
    uint32_t scales;
};

inline work load_work(const weights &w, int64_t group, int64_t b, int column, int quarter, int part, int t)
{
    const int64_t block = w.block(group, b);
    work out = {};
    out.low = w.all.load<two_words>(block + (AT_LOW + quarter * 512 + part * 256 + place_of(column, t)));
    if (HIGH_BITS)
        out.high = w.all.load<two_words>(block + (AT_HIGH + quarter * HIGH_BITS / 2 * 256 + place_of(column, t)));
    if (HAS_MINS) {
        out.h = load_head(w.all, block, w.tail(group, b), column);
    } else {
        out.scales = w.all.load<uint32_t>(block + column * 16 + quarter * 4);
        out.h.d = w.all.load<uint16_t>(w.tail(group, b) + column * 2);
    }
    return out;
}

/* The 8 k of a run. */
inline four_words eight_of(const work &from, int quarter, int run, int part)
{
    const int own =
        HAS_MINS ? from.h.scale(quarter * 2 + run) : (int)(int8_t)xpu::byte_of(from.scales, run * 2 + part);
    const float scale = from.h.d_value() * (float)own;
    float less = 0.0f;
    if (HAS_MINS) {
        const uint32_t mins = run ? from.h.odd_mins() : from.h.even_mins();
        less = from.h.dmin_value() * (float)(mins >> (quarter * 8) & 63u);
    }
    four_words out = {};
#pragma unroll
    for (int word = 0; word < 2; ++word) {
        uint32_t q = from.low[word] >> (run * 4) & 0x0f0f0f0fu;
        if (HIGH_BITS) q |= high_field(from.high[word], quarter, run, part) << 4;
        uint32_t made[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            made[i] = xpu::from_float<xpu::bfloat16>(xpu::fma(float_of_byte(q, i), scale, -less)).bits;
        out[word * 2] = made[0] | made[1] << 16;
        out[word * 2 + 1] = made[2] | made[3] << 16;
    }
    return out;
}

XPU_KERNEL(xpu::global<const uint8_t> prepared, xpu::global<uint8_t> staged, int64_t n, int64_t k)
{
    const weights w = open_weights(prepared, n, k);
    const int64_t group = xpu::block_x(), first = (int64_t)xpu::block_y() * PAIR;
    const int column = xpu::thread() / COLUMN_THREADS, at = xpu::thread() % COLUMN_THREADS;
    const int quarter = at / 4, part = at / 2 % 2, t = at % 2 * 2;
    work all[PAIR];
#pragma unroll
    for (int i = 0; i < PAIR; ++i)
        if (first + i < w.blocks) all[i] = load_work(w, group, first + i, column, quarter, part, t);
    const int64_t row = group * GROUP + column;
    if (row >= n) return;
#pragma unroll
    for (int i = 0; i < PAIR; ++i) {
        if (first + i >= w.blocks) break;
        const int64_t at_k = (first + i) * BLOCK_K + quarter * QUARTER_K + part * 16 + t * 4;
#pragma unroll
        for (int run = 0; run < 2; ++run)
            staged.store<four_words>((row * k + at_k + run * 32) * 2, eight_of(all[i], quarter, run, part));
    }
}
