/* The engine of qgemm_tile in halves whose products are asynchronous: while some are made, the operands of the next
 * ones are.
 *
 * The product is turned round: a wave holds weights of 16 columns of y as rows, and multiplies them with all rows of
 * the tile, which the block shares as lines (xpu_simt_lines.h), a panel of 64 k at a time. Weights come through
 * shared memory too, a block of k at a time, to slots of the wave that makes them operands.
 *
 *   XPU_STAGES   panels: one is multiplied, one may still be, the others are on their way
 *   XPU_SLOTS    blocks of weights, of a wave's every group: one is multiplied, the others are on their way
 *
 * Shared memory: XPU_STAGES times XPU_TILE_M * 128 bytes, XPU_SLOTS times XPU_TILE_N / 16 * SLOT_BYTES,
 * XPU_TILE_N / 16 * TABLE_BYTES, XPU_TILE_M * 4, and 4 for each wave.
 */
#ifndef KQUANT_TILE_LINES_H
#define KQUANT_TILE_LINES_H

#include "halves.h"
#include "ring.h"
#include "rows.h"
#include "tabled_halves.h"

using tile_sum = step_sum;
struct sums_of_wave {
    tile_sum of[ACROSS][DOWN];

    float at(int i, int j, int e) const { return of[j][i][e]; }
};

inline void clear(sums_of_wave &s)
{
    for (int j = 0; j < ACROSS; ++j)
        for (int i = 0; i < DOWN; ++i) xpu::fill(s.of[j][i], 0.0f);
}

constexpr int AHEAD = 2; /* steps whose operands are ready before they are multiplied */
constexpr int LINE_PIECES = QUARTER_K / 8, PANEL = TILE_M * QUARTER_K, PIECES = TILE_M * LINE_PIECES;
constexpr int SLOTS = XPU_SLOTS, AT_W = STAGES * PANEL * 2, ALL_SLOTS = TILE_GROUPS * SLOT_BYTES;
constexpr int TABLE_BYTES = (SUBS + 1) * GROUP * 4, AT_TABLES = AT_W + SLOTS * ALL_SLOTS;
constexpr int AT_FACTORS = AT_TABLES + TILE_GROUPS * TABLE_BYTES; /* a float of each row of the tile */
constexpr int AT_GROUPS = AT_FACTORS + TILE_M * 4; /* a number of each wave */
static_assert(WAVES_DOWN == 1, "every wave multiplies all rows of the tile");
static_assert(STAGES >= 3 && SLOTS >= 2 && STAGES - 2 < 4 * (SLOTS - 1) - 1,
              "weights are there before the rows that they meet");

using panels = xpu::shared<xpu::half>;

/* The lines that come next, by all threads of the block: those of a tile stand side by side. */
struct supply {
    xpu::global<const xpu::half> next; /* a thread's first piece */
    int64_t step;                      /* halves from a panel to the next one */
    int there;                         /* pieces of the tile's rows */

    supply(const tile &t, const bytes &staged)
        : next(staged.as<const xpu::half>() + ((t.first * QUARTERS * t.m + t.row) * QUARTER_K + xpu::thread() * 8)),
          step(t.m * QUARTER_K), there((int)xpu::min(t.m - t.row, (int64_t)TILE_M) * LINE_PIECES)
    {
    }
    void fetch(const panels &to)
    {
#pragma unroll
        for (int i = 0; i < PIECES; i += XPU_THREADS)
            if (i + xpu::thread() < there) xpu::copy_async(to, (i + xpu::thread()) * 8, next, i * 8, 16);
        next = next + step;
    }
    /* Rows that there are not are multiplied all the same. */
    void clear(const panels &all) const
    {
        if (there == PIECES) return;
        const four_words zeros = {};
        for (int i = xpu::thread(); i < STAGES * PIECES; i += XPU_THREADS) all.store<four_words>(i * 8, zeros);
        xpu::barrier();
    }
};

/* The weights of a wave: `group` is its first one. */
struct wave_weights {
    weights stored;
    xpu::shared<uint8_t> memory; /* the wave's first slot */
    xpu::shared<uint8_t> tables; /* and its first table, behind which are the factors of all its columns */
    int64_t group;
    int next; /* of all groups' blocks, the one of the first group that is fetched next; 2^31 fill no memory */

    int64_t own(int j) const { return xpu::min(group + j, stored.groups - 1); }
    int slot_of(uint32_t block, int j) const { return (int)(block % SLOTS) * ALL_SLOTS + j * SLOT_BYTES; }
    scale_table table(int j) const
    {
        const xpu::shared<uint8_t> at = tables + j * TABLE_BYTES;
        return scale_table{at.as<uint32_t>(), (at + TABLE * 4).as<const float>()};
    }

    void fetch_factors() const
    {
        for (int j = 0; j < ACROSS; ++j)
            if (xpu::lane() < GROUP / 4)
                xpu::copy_async(tables, j * TABLE_BYTES + TABLE * 4 + xpu::lane() * 16, stored.all,
                                stored.factors(own(j)) + xpu::lane() * 16, 16);
    }
    void fetch(uint32_t block)
    {
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            const int64_t of = next + (own(j) - own(0)) * stored.blocks;
            fetch_slot<XPU_WAVE>(memory + slot_of(block, j), stored.all + stored.block(0, of),
                                 stored.all + stored.tail(0, of), xpu::lane());
        }
        ++next;
    }
    /* The scales of quarter `turn`, for behind the block's next barrier. Past the end, of the last one for nothing. */
    void scale(uint32_t turn, uint32_t end) const
    {
        const uint32_t of = xpu::min(turn, end - 1);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            table(j).make(memory, slot_of(of / QUARTERS, j), (int)(of % QUARTERS), (int)(turn % QUARTERS));
    }
    quarter_parts load(uint32_t turn, int j) const
    {
        const int quarter = (int)(turn % QUARTERS);
        const w_step f = {};
        quarter_parts parts = {load_quarter(slot(memory), slot_of(turn / QUARTERS, j), quarter)};
        if (HIGH_BITS == 1)
            for (int i = 0; i < f.count; ++i) parts.words.high[i] >>= quarter % 2 * 4;
        for (int i = 0; i < f.lines; ++i)
            parts.by[i] = table(j).memory.load<sub_halves>((quarter * GROUP + column_of(f, f.first(i))) * QUARTER_SUBS);
        return parts;
    }
};

/* What results are multiplied with, of columns the inverse of a power of two; and the wave's first group. All of it is
 * kept in shared memory: the loop leaves no register for what is needed behind it. */
struct factors {
    xpu::shared<uint8_t> memory;
    int64_t group;

    factors(const xpu::shared<uint8_t> &dynamic, const tile &, const weights &, const bytes &, int, int)
        : memory(dynamic), group(dynamic.load<int>(AT_GROUPS + xpu::wave() * 4))
    {
    }
    float of_row(int i, int e) const
    {
        const tile_sum place = {};
        return memory.load<float>(AT_FACTORS + (i * 16 + place.column(e)) * 4);
    }
    float of_column(int j, int e) const
    {
        const tile_sum place = {};
        const int at = AT_TABLES + (xpu::wave() * ACROSS + j) * TABLE_BYTES + (TABLE + place.row(e)) * 4;
        return power_inverse(memory.load<float>(at) * WEIGHT);
    }
};

/* Those of columns are kept for their weights (fetch_factors). */
inline void keep_factors(const xpu::shared<uint8_t> &memory, const tile &t, const bytes &staged, int64_t group)
{
    for (int row = xpu::thread(); row < TILE_M; row += XPU_THREADS)
        xpu::copy_async(memory, AT_FACTORS + row * 4, staged, t.m * t.k * 2 + xpu::min(t.row + row, t.m - 1) * 4, 4);
    if (xpu::lane() == 0) memory.store<int>(AT_GROUPS + xpu::wave() * 4, (int)group);
}

inline void multiply_tile(sums_of_wave &s, const xpu::shared<uint8_t> &dynamic, const tile &t, const weights &stored,
                          const bytes &staged, int, int group)
{
    const panels memory = dynamic.as<xpu::half>();
    supply x(t, staged);
    const uint32_t blocks = (uint32_t)(t.end - t.first), end = blocks * QUARTERS;
    const int64_t first = xpu::min(t.group + group, stored.groups - 1) * stored.blocks + t.first;
    wave_weights w = {stored, dynamic + (AT_W + group * SLOT_BYTES), dynamic + (AT_TABLES + group * TABLE_BYTES),
                      t.group + group, (int)first};
    x.clear(memory);
    keep_factors(dynamic, t, staged, t.group + group);
    w.fetch_factors();
    for (uint32_t i = 0; i < SLOTS - 1; ++i)
        if (i < blocks) w.fetch(i);
    for (uint32_t i = 0; i < STAGES - 2; ++i) {
        if (i < end) x.fetch(memory + i * PANEL);
        xpu::copy_commit();
    }
    xpu::copy_wait<STAGES - 3>();
    xpu::barrier();
    w.scale(0, end);
    w.scale(1, end);
    xpu::wave_barrier();
    w_step a[ACROSS][STEPS];
    quarter_parts parts[ACROSS];
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
        parts[j] = w.load(0, j);
        for (int step = 0; step < AHEAD; ++step) a[j][step] = parts[j].operand(step);
    }
    uint32_t turn = 0;
    do {
        xpu::copy_wait<STAGES - 3>();
        xpu::publish_lines();
        xpu::barrier();
        const panels panel = memory + turn % STAGES * PANEL;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) xpu::multiply_async(s.of[j], a[j][step], panel, step * STEP_K);
            if (step == 0) { /* while there is enough to multiply */
                if (turn + STAGES - 2 < end) x.fetch(memory + (turn + STAGES - 2) % STAGES * PANEL);
                if (turn % QUARTERS == 0 && turn / QUARTERS + SLOTS - 1 < blocks) w.fetch(turn / QUARTERS + SLOTS - 1);
                xpu::copy_commit();
                w.scale(turn + 2, end);
            }
            xpu::multiply_wait<(STEPS - AHEAD) * ACROSS>(); /* what follows takes the place of an operand */
            const int next = (step + AHEAD) % STEPS;
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) {
                if (next == 0) parts[j] = w.load(xpu::min(turn + 1, end - 1), j); /* behind the end, for nothing */
                a[j][next] = parts[j].operand(next);
            }
        }
    } while (++turn < end);
    for (int j = 0; j < ACROSS; ++j) xpu::multiply_end(s.of[j]);
    xpu::copy_wait<0>();
}

#endif
