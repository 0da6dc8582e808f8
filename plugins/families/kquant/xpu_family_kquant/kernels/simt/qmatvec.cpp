/* Matrix-vector product of prepared K-quant weights: decode, m = 1 (a larger m is a row of blocks each).
 *
 * buffers: prepared weights, x (m, k) (16-byte aligned), y (m, n)          sizes: m, n, k
 * grid:    x: portions of XPU_ROWS groups of 16 columns, y: rows of x
 * dynamic shared memory: teams of the block * RING_BYTES (ring.h)
 *
 * Bound by reading the weights once, so members differ in how they ask memory for them. A team of 32 lanes
 * takes a block at a time. It quantises the activations of the block on the way, a quarter of it to a scale,
 * which costs less than a launch for it; lane 4 g + t multiplies word t of each part of columns g and g + 8.
 */
#include "activations.h"
#include "results.h"
#include "ring.h"
#include "rows.h"

constexpr int TEAM = 32, TEAMS = XPU_THREADS / TEAM, PARTS = 2, RUN_SUBS = 32 / SUB_K;

/* A row whose largest magnitude is in here keeps clear of overflow and of what float cannot hold. */
constexpr float LEAST_TOP = 0x1p-60f, MOST_TOP = 0x1p64f;

/* The activations of a block, in shared memory: q, words of the same t side by side; sums of the parts of 16;
 * a scale for each quarter. */
constexpr int AT_SUMS = BLOCK_K, AT_SCALE = AT_SUMS + 16 * 2, RECORD_BYTES = AT_SCALE + QUARTERS * 4;

using record = xpu::shared<uint8_t>;

/* Lane `at` brings 8 activations; the largest magnitude that it saw comes back. */
inline float put_record(const record &to, const activations &x, int64_t k, float down, int at)
{
    four_floats v[2];
    float top = 0.0f;
    load_floats(v, x, k + at * 8);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        top = xpu::max(top, largest_of(v[i]));
        for (int e = 0; e < 4; ++e) v[i][e] *= down;
    }
    const quantiser by = quantiser_for(team_max<8>(top) * down);
    const uint32_t first = quantise(v[0], by), second = quantise(v[1], by);
    const int part = at / 2, t = at % 2 * 2; /* of the 16 parts; the first of two words of it */
    const int sum = xpu::group_sum<2>(sum_of_bytes(first) + sum_of_bytes(second));
    to.store<uint32_t>(t * 64 + part * 4, first);
    to.store<uint32_t>((t + 1) * 64 + part * 4, second);
    if (at % 2 == 0) to.store<int16_t>(AT_SUMS + part * 2, (int16_t)sum);
    if (at % 8 == 0) to.store<float>(AT_SCALE + at / 8 * 4, by.scale);
    return top;
}

/* What a lane needs of the record. */
struct x_words {
    four_words word[QUARTERS]; /* [run * 2 + part] */
    four_floats scale;
    xpu::vec<int16_t, 4> sums; /* of the parts of quarter t */
    float own_scale;           /* of quarter t */
};

inline x_words load_record(const record &from, int t)
{
    x_words x;
    for (int q = 0; q < QUARTERS; ++q) x.word[q] = from.load<four_words>(t * 64 + q * 16);
    x.scale = from.load<four_floats>(AT_SCALE);
    x.sums = from.load<xpu::vec<int16_t, 4>>(AT_SUMS + t * 8);
    x.own_scale = from.load<float>(AT_SCALE + t * 4);
    return x;
}

/* q of a run and a part, four of them as bytes. */
inline uint32_t quants(uint32_t low, uint32_t high, int quarter, int run, int part)
{
    const uint32_t nibbles = (run ? low >> 4 : low) & 0x0f0f0f0fu;
    return HIGH_BITS ? nibbles | high_field(high, quarter, run, part) << 4 : nibbles;
}

/* What is taken off for quarter t: its mins, or 32 times its scales, times the sums of x. */
inline int mins_of(const head &h, const x_words &x, int t)
{
    if (HAS_MINS)
        return (int)(h.even_mins() >> (8 * t) & 0xffu) * (x.sums[0] + x.sums[1]) +
               (int)(h.odd_mins() >> (8 * t) & 0xffu) * (x.sums[2] + x.sums[3]);
    uint32_t word = h.word[0]; /* picked without an index, which would send the words to memory */
#pragma unroll
    for (int i = 1; i < 4; ++i) word = t == i ? h.word[i] : word;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += (int)(int8_t)(word >> (8 * i)) * x.sums[i];
    return 32 * sum;
}

/* A lane's share of a block of one column. */
inline float add_column(const slot &w, int64_t at, int column, int t, const x_words &x)
{
    const head h = load_head(w, at, at + STORED_BYTES, column);
    float total = 0.0f;
#pragma unroll
    for (int q = 0; q < QUARTERS; ++q) {
        const uint32_t high = load_high(w, at, q, column, t);
        uint32_t low[PARTS];
        for (int p = 0; p < PARTS; ++p) low[p] = load_low(w, at, q, column, p * 16 + t * 4);
        int whole = 0;
#pragma unroll
        for (int run = 0; run < 2; ++run) {
            int dot[RUN_SUBS] = {};
#pragma unroll
            for (int p = 0; p < PARTS; ++p) {
                int &sum = dot[p % RUN_SUBS];
                sum = xpu::dot4(quants(low[p], high, q, run, p), x.word[q][run * 2 + p], sum);
            }
            for (int s = 0; s < RUN_SUBS; ++s) whole += h.scale((q * 2 + run) * RUN_SUBS + s) * dot[s];
        }
        total += (float)whole * x.scale[q];
    }
    const float less = (float)mins_of(h, x, t) * x.own_scale;
    return HAS_MINS ? h.d_value() * total - h.dmin_value() * less : h.d_value() * (total - less);
}

/* The team's share of k: sums of columns g and g + 8 of each group. The largest magnitude seen comes back. */
inline float add_blocks(float (&sum)[GROUPS][2], const ring<TEAM> &own, const record &of_team,
                        const activations &x, float down)
{
    const int64_t team = xpu::thread() / TEAM, steps = ceil_div(own.stored.blocks, TEAMS);
    const int at = own.lane, column = at / 4, t = at % 4;
    float top = 0.0f;
#pragma unroll
    for (int i = 0; i < XPU_PREFETCH; ++i) own.fetch(i, team + i * TEAMS);
    for (int64_t step = 0; step < steps; ++step) { /* the same number for all teams of a wave */
        const int64_t b = xpu::min(team + step * TEAMS, own.stored.blocks - 1);
        const bool is_there = team + step * TEAMS < own.stored.blocks;
        own.fetch(step + XPU_PREFETCH, team + (step + XPU_PREFETCH) * TEAMS);
        top = xpu::max(top, put_record(of_team, x, b * BLOCK_K, down, at));
        xpu::copy_wait<XPU_PREFETCH>();
        xpu::wave_barrier();
        if (is_there) {
            const x_words words = load_record(of_team, t);
#pragma unroll
            for (int g = 0; g < GROUPS; ++g)
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    sum[g][i] += add_column(own.memory.as<const uint8_t>(), own.slot_of(step, g), column + i * 8, t, words);
        }
        xpu::wave_barrier();
    }
    xpu::copy_wait<0>();
    return top;
}

XPU_KERNEL(xpu::global<const uint8_t> w, activations x, results y, int64_t m, int64_t n, int64_t k)
{
    XPU_DYNAMIC_SHARED(uint8_t, memory);
    XPU_SHARED(uint8_t, records, TEAMS * RECORD_BYTES);
    XPU_SHARED(float, sums, TEAMS * COLUMNS);
    XPU_SHARED(float, tops, TEAMS);
    const int team = xpu::thread() / TEAM, at = xpu::thread() % TEAM;
    const int64_t group = (int64_t)xpu::block_x() * GROUPS, row = xpu::block_y();
    const ring<TEAM> own = {memory + team * RING_BYTES, open_weights(w, n, k), group, at};
    float down = 1.0f, up = 1.0f;
    for (bool is_last = false;; is_last = true) {
        float sum[GROUPS][2] = {};
        float top = team_max<TEAM>(add_blocks(sum, own, records + team * RECORD_BYTES, x + row * k, down));
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float of_column = xpu::group_sum<4>(sum[g][i]);
                if (at % 4 == 0) sums[team * COLUMNS + g * GROUP + at / 4 + i * 8] = of_column;
            }
        if (at == 0) tops[team] = top;
        xpu::barrier();
        for (int i = 0; i < TEAMS; ++i) top = xpu::max(top, (float)tops[i]);
        if (is_last || !is_outside(top, LEAST_TOP, MOST_TOP)) break;
        down = down_for(top);
        up = up_for(top);
        xpu::barrier();
    }
    for (int c = xpu::thread(); c < COLUMNS; c += XPU_THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < TEAMS; ++i) sum += sums[i * COLUMNS + c];
        if (group * GROUP + c < n) store_result(y, row * n + group * GROUP + c, sum * up);
    }
}
