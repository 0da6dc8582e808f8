/* Matrix product of activations and prepared K-quant weights, in tiles: y (m, n) = x (m, k) W (n, k)^T.
 *
 * buffers: prepared weights, x (m, k) (16-byte aligned), y (m, n)          sizes: m, n, k
 * grid:    x: tiles along n, y: tiles along m, z: parts of k; with more than one part y has to be zero
 *          before the launch, and every part adds its share
 * dynamic shared memory: (XPU_TILE_M + XPU_TILE_N) * (XPU_TILE_K * (XPU_WIDEN + 1) + 16) bytes
 *
 *   XPU_TILE_M, XPU_TILE_N  rows and columns of y of a block, multiples of 16
 *   XPU_TILE_K              depth of a panel: 64, 128 or 256
 *   XPU_UNROLL              rows of 16 x 16 matrices that a wave holds; as many columns of them as are left
 *   XPU_WIDEN               0: activations in 8-bit steps, integer products
 *                           1: activations in half, weights as exact halves
 */
#include "xpu_simt.h"

/* The tile is shared out among the waves: WAVES_DOWN x WAVES_ACROSS of them, DOWN x ACROSS matrices each. */
constexpr int WAVES = XPU_THREADS / XPU_WAVE, MATRICES = XPU_TILE_M / 16 * (XPU_TILE_N / 16) / WAVES;
constexpr int DOWN = XPU_UNROLL < MATRICES ? XPU_UNROLL : MATRICES, ACROSS = MATRICES / DOWN;
constexpr int WAVES_DOWN = XPU_TILE_M / 16 / DOWN, WAVES_ACROSS = WAVES / WAVES_DOWN;
static_assert(WAVES_DOWN * DOWN * 16 == XPU_TILE_M && WAVES_ACROSS * ACROSS * 16 == XPU_TILE_N,
              "the waves of a block share its tile evenly");

#if XPU_WIDEN
#include "engine_halves.h"
#else
#include "engine_bytes.h"
#endif

constexpr int TEAM = 16, TEAMS = XPU_THREADS / TEAM, TEAM_ROWS = TILE_M / TEAMS;
static_assert(TEAM_ROWS * TEAMS == TILE_M, "every team of 16 threads takes the same number of rows");

struct tile {
    int64_t row, group;         /* of y, its first */
    int64_t m, n, k;
    int64_t first_block, end_block; /* the part of k */
};

/* The rows of a team: what they are multiplied by, and their largest magnitudes. */
struct team_rows {
    float down[TEAM_ROWS], top[TEAM_ROWS];
};

inline void fill_x(const panels &p, const tile &t, const xpu::global<const float> &x, int64_t k, team_rows &rows)
{
    const int team = xpu::thread() / TEAM, at = xpu::thread() % TEAM;
#pragma unroll
    for (int i = 0; i < TEAM_ROWS; ++i) {
        const int row = team + i * TEAMS;
        four_floats v[STEP_QUARTERS] = {};
#pragma unroll
        for (int q = 0; q < STEP_QUARTERS; ++q) {
            if (t.row + row < t.m) v[q] = x.load<four_floats>((t.row + row) * t.k + k + q * QUARTER_K + at * 4);
            rows.top[i] = xpu::max(rows.top[i], largest_of(v[q]));
            for (int e = 0; e < 4; ++e) v[q][e] *= rows.down[i];
        }
        put_row(p, row, v, at);
    }
}

/* Half a unit: lines 4 part to 4 part + 3 of four columns from `column` of the tile on. */
inline void fill_half_unit(const panels &p, const weights &w, int64_t group, int64_t b, int quarter, int in_step,
                           int four, int part, int column)
{
    four_words low[4] = {}, high[2] = {};
    uint32_t words[SCALE_WORDS] = {};
    d_values d = {};
    if (group < w.groups) {
        const int64_t block = w.block(group, b);
        const int number = quarter * 4 + four;
#pragma unroll
        for (int r = 0; r < 4; ++r) low[r] = load_four(w.all, block + AT_LOW, part * 4 + r, number);
        if (HIGH_LINES)
            for (int run = 0; run < 2; ++run)
                high[run] = load_four(w.all, block + AT_HIGH, high_line(run, part), number);
        load_scale_words(w.all, block, number, words);
        d = load_d(w, group, b, number);
    }
    const unit_scales s = scales_of(words);
#pragma unroll
    for (int run = 0; run < 2; ++run) {
        const uint32_t scale = s.scale[run * RUN_SUBS + part % RUN_SUBS];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            four_words q;
            for (int r = 0; r < 4; ++r) q[r] = quants(low[r][j], high[run][j], run, part * 4 + r);
            put_quants(p, column + j, in_step * QUARTER_K + run * 32 + part * 16, q, signed_byte(scale, j));
        }
        const int sub = in_step * QUARTER_SUBS + run * RUN_SUBS + part;
        if (part < RUN_SUBS) p.scale.store<uint32_t>(sub * TILE_N + column, scale);
    }
    if (HAS_MINS) put_mins(p, part ? s.min[1] : s.min[0], column, in_step * 2 + part);
    if (in_step == 0 && part == 0) put_d(p, d, column);
}

inline void fill_w(const panels &p, const tile &t, const weights &w, int64_t b, int first_quarter)
{
    for (int i = xpu::thread(); i < TILE_N / 4 * STEP_QUARTERS * 2; i += XPU_THREADS) {
        const int four = i % 4, in_step = i / 4 % STEP_QUARTERS, part = i / (4 * STEP_QUARTERS) % 2;
        const int group = i / (8 * STEP_QUARTERS), column = group * GROUP + four * 4;
        fill_half_unit(p, w, t.group + group, b, first_quarter + in_step, in_step, four, part, column);
    }
}

/* total += (d * step - dmin * mins) * scale of the row */
inline void add_step(sums_of_wave &s, const panels &p, int row, int column)
{
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
        xpu::matrix_b<xpu::half, 16, 16, MIN_K> of_w;
        if (HAS_MINS) xpu::load(of_w, p.mins, (column + j * 16) * MIN_K, MIN_K);
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            xpu::accumulator<float, 16, 16, MIN_K> mins;
            xpu::fill(mins, 0.0f);
            if (HAS_MINS) {
                xpu::matrix_a<xpu::half, 16, 16, MIN_K> of_x;
                xpu::load(of_x, p.sums, (row + i * 16) * MIN_K, MIN_K);
                xpu::multiply(mins, of_x, of_w);
            }
            const part_sum place = {};
#pragma unroll
            for (int e = 0; e < part_sum::count; ++e) {
                const int r = row + i * 16 + place.row(e), c = column + j * 16 + place.column(e);
                float sum = p.d[c] * step_sum(s, i, j, e);
                if (HAS_MINS) sum -= p.dmin[c] * mins[e];
                s.total[i][j][e] += sum * p.x_scale[r];
            }
        }
    }
}

inline void multiply_tile(sums_of_wave &s, const panels &p, const tile &t, const weights &w,
                          const xpu::global<const float> &x, int row, int column, team_rows &rows)
{
    for (int64_t b = t.first_block; b < t.end_block; ++b)
        for (int step = 0; step < BLOCK_STEPS; ++step) {
            fill_w(p, t, w, b, step * STEP_QUARTERS);
            fill_x(p, t, x, b * BLOCK_K + step * TILE_K, rows);
            xpu::barrier();
            multiply_step(s, p, row, column);
            add_step(s, p, row, column);
            xpu::barrier();
        }
}

/* Looks at the largest magnitudes; whether any row of the tile has to be scaled, which is then noted. */
inline bool has_to_scale(team_rows &rows, const xpu::shared<float> &up, const xpu::shared<int> &votes)
{
    bool is_any = false;
#pragma unroll
    for (int i = 0; i < TEAM_ROWS; ++i) {
        const float top = team_max<TEAM>(rows.top[i]);
        const bool is_bad = is_outside(top, LEAST_TOP, MOST_TOP);
        rows.down[i] = is_bad ? down_for(top) : 1.0f;
        if (xpu::thread() % TEAM == 0) up[xpu::thread() / TEAM + i * TEAMS] = is_bad ? up_for(top) : 1.0f;
        is_any = is_any || is_bad;
    }
    const bool is_wave = xpu::wave_any(is_any);
    if (xpu::lane() == 0) votes[xpu::wave()] = is_wave;
    xpu::barrier();
    is_any = false;
    for (int i = 0; i < WAVES; ++i) is_any = is_any || votes[i] != 0;
    return is_any;
}

inline void store_tile(const sums_of_wave &s, const tile &t, const xpu::shared<float> &up, const xpu::global<float> &y,
                       int row, int column)
{
    const part_sum place = {};
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
#pragma unroll
            for (int e = 0; e < part_sum::count; ++e) {
                const int r = row + i * 16 + place.row(e);
                const int64_t at_row = t.row + r, at_column = t.group * GROUP + column + j * 16 + place.column(e);
                if (at_row >= t.m || at_column >= t.n) continue;
                const float value = s.total[i][j][e] * up[r];
                if (xpu::grid_z() == 1) y[at_row * t.n + at_column] = value;
                else xpu::atomic_add(y, at_row * t.n + at_column, value);
            }
}

XPU_KERNEL(xpu::global<const uint8_t> w, xpu::global<const float> x, xpu::global<float> y, int64_t m, int64_t n,
           int64_t k)
{
    XPU_DYNAMIC_SHARED(uint8_t, lines);
    XPU_SHARED(uint8_t, scale, STEP_SUBS * TILE_N);
    XPU_SHARED(float, d, 2 * TILE_N);
    XPU_SHARED(float, x_scale, TILE_M);
    XPU_SHARED(float, up, TILE_M);
    XPU_SHARED(xpu::half, sums, HAS_MINS ? TILE_M * MIN_K : 8);
    XPU_SHARED(xpu::half, mins, HAS_MINS ? TILE_N * MIN_K : 8);
    XPU_SHARED(int, votes, WAVES);
    const panels p = {lines, lines + TILE_M * LINE_BYTES, scale, d, d + TILE_N, x_scale, sums, mins};
    const int64_t blocks = k / BLOCK_K, part = xpu::block_z();
    const tile t = {(int64_t)xpu::block_y() * TILE_M, (int64_t)xpu::block_x() * (TILE_N / GROUP), m, n, k,
                    blocks * part / xpu::grid_z(), blocks * (part + 1) / xpu::grid_z()};
    const weights stored = open_weights(w, n, k);
    const int row = xpu::wave() / WAVES_ACROSS * DOWN * 16, column = xpu::wave() % WAVES_ACROSS * ACROSS * 16;
    if (HAS_MINS && STEP_SUBS < 8) clear_mins(p);
    xpu::barrier();
    team_rows rows;
    for (int i = 0; i < TEAM_ROWS; ++i) rows.down[i] = 1.0f;
    for (bool is_last = false;; is_last = true) {
        sums_of_wave s = {};
        for (int i = 0; i < TEAM_ROWS; ++i) rows.top[i] = 0.0f;
        multiply_tile(s, p, t, stored, x, row, column, rows);
        if (is_last || !has_to_scale(rows, up, votes)) {
            store_tile(s, t, up, y, row, column);
            return;
        }
    }
}
