/* Matrix product of activations and prepared K-quant weights, in tiles: y (m, n) = x (m, k) W (n, k)^T.
 *
 * buffers: prepared weights, x (m, k), y (m, n)          sizes: m, n, k
 *
 *   XPU_TILE_M  rows of y per task          XPU_TILE_N  columns of y per task, a multiple of 16
 *   XPU_TILE_K  k per decoded panel, a multiple of 256
 *   XPU_UNROLL  rows of y in registers at once, where the vector unit multiplies
 *   XPU_WIDEN   0: activations in 8-bit blocks, weights stay integers
 *               1: weights are dequantised and multiplied in a wide type
 *
 * Phase 0 brings the rows of x into the form the engine wants; phase 1 computes tiles. A task decodes
 * its columns of weights panel by panel and lets all its rows use them, so a larger tile_m decodes
 * less often; panel and sums of a task should fit the second-level cache.
 *
 * An engine (one of the three headers) supplies the form of activations (ROW_STEP that m is padded
 * to, act_row_bytes, take_row), of a panel of 16 columns of 256 k (PANEL_BYTES, decode_panel), the product of a run of
 * panels with the rows of a task (multiply), where it leaves its sums (sums_at), and what it sets up
 * on a thread (begin, end).
 */
#include "xpu_c.h"

#if XPU_WIDEN && defined(__AMX_BF16__) && defined(__AVX512BF16__)
#include "engine_amx.h"
#elif XPU_WIDEN
#include "engine_float.h"
#else
#include "engine_dot.h"
#endif

enum { PANEL_BLOCKS = XPU_TILE_K / BLOCK_K, TILE_GROUPS = XPU_TILE_N / GROUP,
       TASK_ROWS = (XPU_TILE_M + ROW_STEP - 1) / ROW_STEP * ROW_STEP };

_Static_assert(XPU_TILE_K % BLOCK_K == 0 && XPU_TILE_N % GROUP == 0, "tile_k is in blocks, tile_n in groups");

/* Where things lie in the scratch memory. */
typedef struct layout {
    float *back;      /* per row of x: what its products are multiplied by */
    uint8_t *rows;    /* the engine's activations */
    uint8_t *workers; /* per worker: panels, then sums */
    int64_t padded_m, row_bytes, worker_bytes, end;
} layout;

static int64_t in_lines(int64_t bytes) { return ceil_div(bytes, LINE) * LINE; }

static layout lay_out(uint8_t *scratch, const int64_t *sizes, int32_t workers)
{
    layout l;
    l.padded_m = ceil_div(sizes[0], ROW_STEP) * ROW_STEP;
    l.row_bytes = act_row_bytes(sizes[2]);
    l.back = (float *)scratch;
    l.rows = scratch + in_lines(l.padded_m * (int64_t)sizeof(float));
    l.workers = l.rows + in_lines(l.padded_m * l.row_bytes);
    l.worker_bytes = (int64_t)TILE_GROUPS * PANEL_BLOCKS * PANEL_BYTES
                   + at_most(TASK_ROWS, l.padded_m) * XPU_TILE_N * (int64_t)sizeof(float);
    l.end = (l.workers - scratch) + l.worker_bytes * workers;
    return l;
}

XPU_PHASES(2);

XPU_SCRATCH { return lay_out(NULL, sizes, workers).end; }

static void take_rows(const xpu_team *team, const layout *l, const float *x, const int64_t *sizes)
{
    for (int64_t row; (row = xpu_take(team, 1)) < l->padded_m;)
        l->back[row] = take_row(l->rows, row, l->padded_m, row < sizes[0] ? x + row * sizes[2] : NULL, sizes[2]);
}

static void store_tile(const float *sums, const float *back, float *y, int64_t rows, int64_t columns, int64_t n)
{
    const int64_t groups = ceil_div(columns, GROUP);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t g = 0; g < groups; ++g) {
            const float *from = sums_at(sums, r, g, groups);
            const int64_t count = columns - g * GROUP;
            float out[GROUP];
            for (int c = 0; c < GROUP; ++c) out[c] = from[c] * back[r];
            if (count >= GROUP) memcpy(y + r * n + g * GROUP, out, sizeof out);
            else memcpy(y + r * n + g * GROUP, out, (size_t)count * sizeof *out);
        }
}

/* One task: `rows` rows from `row`, the columns of `groups` groups from `group`. */
static void compute_tile(const layout *l, const weights *w, uint8_t *own, int64_t row, int64_t rows, int64_t group,
                         int64_t groups)
{
    uint8_t *panels = own;
    float *sums = (float *)(own + (int64_t)TILE_GROUPS * PANEL_BLOCKS * PANEL_BYTES);
    for (int64_t first = 0; first < w->blocks; first += PANEL_BLOCKS) {
        const int64_t blocks = at_most(PANEL_BLOCKS, w->blocks - first);
        for (int64_t g = 0; g < groups; ++g)
            for (int64_t b = 0; b < blocks; ++b)
                decode_panel(w, group + g, first + b, panels + (g * PANEL_BLOCKS + b) * PANEL_BYTES);
        const panel_run run = {l->rows, l->padded_m, w->blocks, panels, PANEL_BLOCKS * PANEL_BYTES,
                               groups, first, blocks};
        multiply(&run, row, rows, sums);
    }
}

XPU_KERNEL
{
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
    if (m <= 0 || n <= 0 || k <= 0) return;
    const layout l = lay_out((uint8_t *)team->scratch, sizes, team->workers);
    if (team->phase == 0) {
        take_rows(team, &l, (const float *)buffers[1], sizes);
        return;
    }
    const weights w = open_weights(buffers[0], n, k);
    uint8_t *own = l.workers + team->worker * l.worker_bytes;
    float *sums = (float *)(own + (int64_t)TILE_GROUPS * PANEL_BLOCKS * PANEL_BYTES);
    const int64_t down = ceil_div(m, TASK_ROWS), across = ceil_div(n, XPU_TILE_N);
    machine_state before;
    begin(m, &before);
    for (int64_t task; (task = xpu_take(team, 1)) < down * across;) {
        const int64_t row = task % down * TASK_ROWS, column = task / down * XPU_TILE_N;
        const int64_t rows = at_most(TASK_ROWS, m - row), columns = at_most(XPU_TILE_N, n - column);
        compute_tile(&l, &w, own, row, rows, column / GROUP, ceil_div(columns, GROUP));
        store_tile(sums, l.back + row, (float *)buffers[2] + row * n + column, rows, columns, n);
    }
    end(&before);
}
