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
 * An engine (one of the headers engine_*.h) supplies the form of activations (ROW_STEP that m is
 * padded to, act_row_bytes, take_row), the work of a task (compute_tile) and the bytes of panels it
 * needs for it (ALL_PANELS), where it leaves the sums (sums_at), and what it sets up on a thread
 * (begin, end).
 */
#include "xpu_c.h"
#include "results.h"

#if XPU_WIDEN && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__)
#include "engine_amx.h"
#elif XPU_WIDEN
#include "engine_float.h"
#elif XPU_TILE_M <= XPU_UNROLL && XPU_UNROLL <= 8
#include "engine_direct.h"
#else
#include "engine_dot.h"
#endif

enum { SUM_COLUMNS = (XPU_TILE_N + 31) / 32 * 32, /* AMX keeps sums in pairs of groups */
       TASK_ROWS = (XPU_TILE_M + ROW_STEP - 1) / ROW_STEP * ROW_STEP };

/* Where things lie in the scratch memory, in bytes from its start. */
typedef struct layout {
    int64_t back;    /* per row of x: what its products are multiplied by */
    int64_t rows;    /* the engine's activations */
    int64_t workers; /* per worker: panels, then sums */
    int64_t padded_m, worker_bytes;
} layout;

/* Areas are whole pages: workers write to theirs all the time. */
static int64_t in_pages(int64_t bytes) { return ceil_div(bytes, 4096) * 4096; }

static layout lay_out(const int64_t *sizes)
{
    const int64_t m = ceil_div(sizes[0], ROW_STEP) * ROW_STEP;
    const int64_t rows = in_pages(m * (int64_t)sizeof(float)), workers = rows + in_pages(m * act_row_bytes(sizes[2]));
    const int64_t sums = at_most(TASK_ROWS, m) * SUM_COLUMNS * (int64_t)sizeof(float);
    return (layout){0, rows, workers, m, in_pages(ALL_PANELS + sums)};
}

XPU_PHASES(2);

XPU_SCRATCH
{
    const layout l = lay_out(sizes);
    return l.workers + l.worker_bytes * workers;
}

static void take_rows(const xpu_team *team, const layout *l, const activation *x, const int64_t *sizes)
{
    uint8_t *scratch = (uint8_t *)team->scratch;
    float *back = (float *)(scratch + l->back);
    for (int64_t row; (row = xpu_take(team, 1)) < l->padded_m;)
        back[row] = take_row(scratch + l->rows, row, l->padded_m, row < sizes[0] ? x + row * sizes[2] : NULL, sizes[2]);
}

static void store_tile(const float *sums, const float *back, result *y, int64_t rows, int64_t columns, int64_t n)
{
    const int64_t groups = ceil_div(columns, GROUP);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t column = g * GROUP;
            store_columns(y + r * n + column, sums_at(sums, r, g, rows, groups), back[r], columns - column);
        }
}

static void compute(const xpu_team *team, const layout *l, void *const *buffers, const int64_t *sizes)
{
    const int64_t m = sizes[0], n = sizes[1], down = ceil_div(m, TASK_ROWS), across = ceil_div(n, XPU_TILE_N);
    const weights w = open_weights(buffers[0], n, sizes[2]);
    uint8_t *scratch = (uint8_t *)team->scratch, *panels = scratch + l->workers + team->worker * l->worker_bytes;
    const float *back = (const float *)(scratch + l->back);
    float *sums = (float *)(panels + ALL_PANELS);
    result *y = (result *)buffers[2];
    for (int64_t i; (i = xpu_take(team, 1)) < down * across;) {
        const int64_t row = i % down * TASK_ROWS, column = i / down * XPU_TILE_N;
        const int64_t rows = at_most(TASK_ROWS, m - row), columns = at_most(XPU_TILE_N, n - column);
        const task t = {&w, scratch + l->rows, l->padded_m, row, rows, column / GROUP, ceil_div(columns, GROUP)};
        compute_tile(&t, panels, sums);
        store_tile(sums, back + row, y + row * n + column, rows, columns, n);
    }
}

XPU_KERNEL
{
    if (sizes[0] <= 0 || sizes[1] <= 0 || sizes[2] <= 0) return;
    const layout l = lay_out(sizes);
    if (team->phase == 0) {
        take_rows(team, &l, (const activation *)buffers[1], sizes);
        return;
    }
    machine_state before;
    begin(sizes[0], &before);
    compute(team, &l, buffers, sizes);
    end(&before);
}
