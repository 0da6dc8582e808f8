/* ROWS rows of x (a constant) times weights that are read once: the body of the mat-vec kernels.
 *
 *   XPU_ROWS      groups of 16 weight rows (columns of y) of a block, side by side
 *   XPU_PREFETCH  0: a unit of weights is loaded when it is needed; 1: while the one before is multiplied
 *
 * A team of 16 lanes takes a block of a group, a lane a unit of it; the teams of a block of threads share
 * k. Every block quantises its rows of x for itself, 32 activations to a scale, a chunk of k at a time.
 *
 *   shared, per row and quarter (64 k):   64 bytes of q | scale of run 0, of run 1 | four sums of 16 q
 *
 * 80 bytes, so that the quarters that a wave reads at the same time lie in different banks.
 */
#ifndef KQUANT_VECTOR_H
#define KQUANT_VECTOR_H

#include "rows.h"
#include "unit.h"

constexpr int TEAMS = XPU_THREADS / UNITS, WAVES = XPU_THREADS / XPU_WAVE;
constexpr int QUARTER_BYTES = 80, AT_SUMS = 72;
constexpr int CHUNK_BLOCKS = ROWS == 1 ? 64 : 128 / ROWS;
constexpr int ROW_BYTES = CHUNK_BLOCKS * QUARTERS * QUARTER_BYTES;
constexpr int GROUPS = XPU_ROWS, COLUMNS = GROUPS * GROUP;
static_assert(XPU_THREADS % XPU_WAVE == 0 && CHUNK_BLOCKS % TEAMS == 0, "teams share the blocks of a chunk evenly");
static_assert(WAVES * ROWS * (COLUMNS + 1) * 4 <= ROWS * ROW_BYTES, "the sums of all waves fit where x was");

/* A row whose largest magnitude is in here keeps clear of overflow and of what float cannot hold. */
constexpr float LEAST_TOP = 0x1p-60f, MOST_TOP = 0x1p64f;

using chunk = xpu::shared<uint8_t>;

/* The weights of a lane. */
struct unit {
    four_words low[LINES];
    four_words high[HIGH_LINES ? HIGH_LINES : 1];
    uint32_t scale[SCALE_WORDS];
    d_values d;
};

inline unit load_unit(const weights &w, int64_t group, int64_t b, int number)
{
    unit u = {};
    if (group >= w.groups) return u; /* the second group of the last pair may not be there */
    const int64_t block = w.block(group, b);
#pragma unroll
    for (int r = 0; r < LINES; ++r) u.low[r] = load_four(w.all, block + AT_LOW, r, number);
#pragma unroll
    for (int i = 0; i < HIGH_LINES; ++i) u.high[i] = load_four(w.all, block + AT_HIGH, i, number);
    load_scale_words(w.all, block, number, u.scale);
    u.d = load_d(w, group, b, number);
    return u;
}

/* Rows of x from k = first on, `blocks` of them, to the chunk; `top` takes the largest magnitudes seen. */
inline void quantise_chunk(const chunk &to, const xpu::global<const float> &x, int64_t rows, int64_t k, int64_t first,
                           int blocks, const float (&down)[ROWS], float (&top)[ROWS])
{
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
        for (int at = xpu::thread() * 4; at < blocks * BLOCK_K; at += XPU_THREADS * 4) { /* whole waves */
            four_floats v = {};
            if (row < rows) v = x.load<four_floats>(row * k + first + at);
            top[row] = xpu::max(top[row], largest_of(v));
#pragma unroll
            for (int i = 0; i < 4; ++i) v[i] *= down[row];
            const quantised q = quantise(v, team_max<8>(largest_of(v)));
            const int sum = xpu::group_sum<4>(q.sum);
            const int quarter = row * ROW_BYTES + at / QUARTER_K * QUARTER_BYTES, in_quarter = at % QUARTER_K;
            to.store<uint32_t>(quarter + in_quarter, q.word);
            if (in_quarter % 32 == 0) to.store<float>(quarter + QUARTER_K + in_quarter / 32 * 4, q.scale);
            if (in_quarter % 16 == 0) to.store<int16_t>(quarter + AT_SUMS + in_quarter / 16 * 2, (int16_t)sum);
        }
}

/* What a run of 32 activations is multiplied with: four columns' weights of it. */
struct run_weights {
    uint32_t q[LINES][4];
    float scale[4], min[4]; /* Q4_K, Q5_K: d * scale, dmin * min; Q6_K: d */
    int part[2][4];         /* Q6_K: the scales of its two sub-blocks */
};

inline run_weights decode(const unit &u, const unit_scales &s, int run)
{
    run_weights out;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int r = 0; r < LINES; ++r) out.q[r][j] = quants(u.low[r][j], u.high[high_line(run, r / 4)][j], run, r);
        const float d = xpu::to_float(u.d[j]);
        if (HAS_MINS) {
            out.scale[j] = d * (float)signed_byte(s.scale[run], j);
            out.min[j] = xpu::to_float(u.d[D_VALUES - 4 + j]) * (float)signed_byte(s.min[run], j);
        } else {
            out.scale[j] = d;
            out.part[0][j] = signed_byte(s.scale[run * RUN_SUBS], j);
            out.part[1][j] = signed_byte(s.scale[run * RUN_SUBS + RUN_SUBS - 1], j);
        }
    }
    return out;
}

/* Adds one run of one row: `quarter` is where it lies in the chunk. */
inline void add_run(float (&acc)[4], const run_weights &w, const chunk &x, int quarter, int run)
{
    const four_words first = x.load<four_words>(quarter + run * 32);
    const four_words second = x.load<four_words>(quarter + run * 32 + 16);
    const float scale = x.load<float>(quarter + QUARTER_K + run * 4);
    const uint32_t sums = x.load<uint32_t>(quarter + AT_SUMS + run * 4);
    const int sum[2] = {(int16_t)sums, (int16_t)(sums >> 16)};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        int dot[2] = {0, 0};
        if (!HAS_MINS) { /* q counts from -32 */
            dot[0] = -32 * sum[0];
            dot[1] = -32 * sum[1];
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            dot[0] = xpu::dot4(w.q[r][j], first[r], dot[0]);
            dot[1] = xpu::dot4(w.q[r + 4][j], second[r], dot[1]);
        }
        if (HAS_MINS) acc[j] += scale * (w.scale[j] * (float)(dot[0] + dot[1]) - w.min[j] * (float)(sum[0] + sum[1]));
        else acc[j] += scale * (w.scale[j] * (float)(w.part[0][j] * dot[0] + w.part[1][j] * dot[1]));
    }
}

inline void add_unit(float (&acc)[ROWS][4], const unit &u, const chunk &x, int quarter)
{
    const unit_scales s = scales_of(u.scale);
#pragma unroll
    for (int run = 0; run < 2; ++run) {
        const run_weights w = decode(u, s, run);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) add_run(acc[row], w, x, row * ROW_BYTES + quarter, run);
    }
}

/* All of k: every lane ends with its share of the sums of its four columns. */
inline void add_all(float (&acc)[GROUPS][ROWS][4], const weights &w, int64_t group, const chunk &shared_x,
                    const xpu::global<const float> &x, int64_t rows, const float (&down)[ROWS], float (&top)[ROWS])
{
    const int team = xpu::thread() / UNITS, number = xpu::thread() % UNITS;
    unit next[GROUPS];
    if (XPU_PREFETCH && team < w.blocks)
        for (int g = 0; g < GROUPS; ++g) next[g] = load_unit(w, group + g, team, number);
    for (int64_t first = 0; first < w.blocks; first += CHUNK_BLOCKS) {
        const int blocks = (int)xpu::min(w.blocks - first, (int64_t)CHUNK_BLOCKS);
        quantise_chunk(shared_x, x, rows, w.blocks * BLOCK_K, first * BLOCK_K, blocks, down, top);
        xpu::barrier();
        for (int b = team; b < blocks; b += TEAMS) {
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                const unit now = XPU_PREFETCH ? next[g] : load_unit(w, group + g, first + b, number);
                if (XPU_PREFETCH && first + b + TEAMS < w.blocks)
                    next[g] = load_unit(w, group + g, first + b + TEAMS, number);
                add_unit(acc[g], now, shared_x, (b * QUARTERS + number / 4) * QUARTER_BYTES);
            }
        }
        xpu::barrier();
    }
}

/* Sums over the quarters and teams of a wave, to shared memory: [wave][row][columns of the block, top]. */
inline void leave_sums(const xpu::shared<float> &sums, const float (&acc)[GROUPS][ROWS][4], const float (&top)[ROWS])
{
    const int lane = xpu::lane();
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        const int at = (xpu::wave() * ROWS + row) * (COLUMNS + 1);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float sum = acc[g][row][j];
#pragma unroll
                for (int mask = XPU_WAVE / 2; mask >= 4; mask /= 2) sum += xpu::shuffle_xor(sum, mask);
                if (lane < 4) sums[at + g * GROUP + lane * 4 + j] = sum;
            }
        const float largest = xpu::wave_max(top[row]);
        if (lane == 0) sums[at + COLUMNS] = largest;
    }
}

/* y (m, n), rows from `row` on and columns of `GROUPS` groups from `group` on. */
inline void multiply_rows(const chunk &memory, const weights &w, int64_t group, const xpu::global<const float> &x,
                          const xpu::global<float> &y, int64_t row, int64_t m, int64_t n)
{
    const int64_t rows = xpu::min(m - row, (int64_t)ROWS);
    const xpu::shared<float> sums = memory.as<float>();
    float down[ROWS], up[ROWS];
    for (int i = 0; i < ROWS; ++i) down[i] = up[i] = 1.0f;
    for (bool is_last = false, is_done = false; !is_done;) {
        float acc[GROUPS][ROWS][4] = {}, top[ROWS] = {};
        add_all(acc, w, group, memory, x + row * w.blocks * BLOCK_K, rows, down, top);
        leave_sums(sums, acc, top);
        xpu::barrier();
        is_done = true;
        for (int i = 0; i < ROWS && !is_last; ++i) {
            float largest = 0.0f;
            for (int wave = 0; wave < WAVES; ++wave)
                largest = xpu::max(largest, (float)sums[(wave * ROWS + i) * (COLUMNS + 1) + COLUMNS]);
            if (!is_outside(largest, LEAST_TOP, MOST_TOP)) continue;
            is_done = false;
            down[i] = down_for(largest);
            up[i] = up_for(largest);
        }
        is_last = true;
        for (int at = xpu::thread(); at < ROWS * COLUMNS && is_done; at += XPU_THREADS) {
            const int i = at / COLUMNS, c = at % COLUMNS;
            const int64_t column = group * GROUP + c;
            float sum = 0.0f, factor = 1.0f;
            for (int wave = 0; wave < WAVES; ++wave) sum += sums[(wave * ROWS + i) * (COLUMNS + 1) + c];
            for (int r = 0; r < ROWS; ++r) factor = r == i ? up[r] : factor;
            if (i < rows && column < n) y[(row + i) * n + column] = sum * factor;
        }
        xpu::barrier();
    }
}

#endif
