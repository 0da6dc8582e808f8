/* The engine of qgemm_tile in 8 bits: twice the products of halves in an instruction, x rounded to 8 bits.
 *
 * A stage of shared memory is a block of 256 k of all that the tile needs, rows of x and groups of weights. A
 * wave makes a quarter of its groups' weights operands and multiplies all its rows with them, so the more rows
 * it has, the less a weight costs; the more columns, the less often x is read from shared memory.
 *
 *   [row] 16 pieces of 16 bytes, q          [row] both halves of each sum of x, 16 bytes unused
 *   [quarter] scales of the rows, 32 unused [group] slot of weights (ring.h)
 *
 * What is unused brings what lanes take at once to different banks.
 */
#ifndef KQUANT_TILE_BYTES_H
#define KQUANT_TILE_BYTES_H

#include "bytes.h"

constexpr int SUM_LINE = SUM_BYTES + 16, SCALE_LINE = TILE_M * 4 + 32;
constexpr int AT_X_SUMS = TILE_M * BLOCK_K, AT_X_SCALES = AT_X_SUMS + TILE_M * SUM_LINE;
constexpr int AT_W = AT_X_SCALES + QUARTERS * SCALE_LINE, STAGE_BYTES = AT_W + TILE_GROUPS * SLOT_BYTES;
static_assert(XPU_THREADS / TILE_GROUPS * 16 >= TAIL_BYTES && XPU_THREADS >= TILE_GROUPS && XPU_THREADS % 32 == 0,
              "each group is brought by threads of its own, and rows by pairs");

using stage = xpu::shared<uint8_t>;
using tile_sum = part_sum; /* of 8 rows and 16 columns */

struct sums_of_wave {
    float of[DOWN][ACROSS][SUMS];

    float at(int i, int j, int e) const { return of[i][j][e]; }
};

inline void clear(sums_of_wave &s)
{
    for (int i = 0; i < DOWN; ++i)
        for (int j = 0; j < ACROSS; ++j)
            for (int e = 0; e < SUMS; ++e) s.of[i][j][e] = 0.0f;
}

/* Lanes read four pieces of each of two rows at once: they are turned for every other row. */
inline int place_of_piece(int row, int piece) { return row * BLOCK_K + (piece ^ row % 2 * 4) * 16; }

/* This thread's share of SIZE bytes that the tile needs of a block of k, in pieces of PIECE bytes. It goes along
 * from block to block: an address takes longer to work out than to copy from. */
template <int SIZE, int PIECE> struct share {
    bytes from;
    int64_t block; /* from the bytes of one block to those of the next */
    int there;     /* bytes from the first piece of this thread on */
    int to, step;  /* where a stage has the first piece, and from there to the next one */

    template <bool WHOLE> void fetch(const stage &all)
    {
        const stage own = all + to;
#pragma unroll
        for (int i = 0; i < SIZE / PIECE; i += XPU_THREADS)
            if ((WHOLE && i + XPU_THREADS <= SIZE / PIECE) || i * PIECE < there)
                xpu::copy_async(own, i / XPU_THREADS * step, from, i * PIECE, PIECE);
        from = from + block;
    }
};

template <int SIZE, int PIECE>
inline share<SIZE, PIECE> share_of(const bytes &from, int64_t block, int there, int to, int step)
{
    const int at = xpu::thread() * PIECE;
    return share<SIZE, PIECE>{from + at, block, there - at, to, step};
}

/* What comes next of all that a stage holds. */
struct supply {
    share<TILE_M * BLOCK_K, 16> words;
    share<TILE_M * SUM_BYTES, 16> sums;
    share<TILE_M * SCALE_BYTES, 4> scales;
    bytes w, tail; /* each group by its share of the threads */
    bool is_whole; /* all rows of the tile are there */

    static constexpr int WIDTH = XPU_THREADS / TILE_GROUPS;

    template <bool WHOLE> void fetch_x(const stage &to)
    {
        words.fetch<WHOLE>(to);
        sums.fetch<WHOLE>(to);
        scales.fetch<WHOLE>(to);
    }
    void fetch(const stage &to)
    {
        const int thread = xpu::thread();
        if (is_whole) fetch_x<true>(to);
        else fetch_x<false>(to);
        if (WIDTH * TILE_GROUPS == XPU_THREADS || thread < WIDTH * TILE_GROUPS)
            fetch_slot<WIDTH>(to + (AT_W + thread / WIDTH * SLOT_BYTES), w, tail, thread % WIDTH);
        w = w + STORED_BYTES;
        tail = tail + TAIL_BYTES;
    }
};

inline supply open_supply(const tile &t, const weights &stored, const bytes &x)
{
    constexpr int SUM_PIECES = SUM_BYTES / 16;
    const staged_x staged = {t.m, stored.blocks};
    const int thread = xpu::thread(), rows = (int)xpu::min(t.m - t.row, (int64_t)TILE_M);
    const int64_t group = xpu::min(t.group + thread / supply::WIDTH, stored.groups - 1);
    return supply{share_of<TILE_M * BLOCK_K, 16>(x + staged.words(t.first, t.row), t.m * BLOCK_K, rows * BLOCK_K,
                                                 place_of_piece(thread / 16, thread % 16), XPU_THREADS / 16 * BLOCK_K),
                  share_of<TILE_M * SUM_BYTES, 16>(
                      x + staged.sums(t.first, t.row), t.m * SUM_BYTES, rows * SUM_BYTES,
                      AT_X_SUMS + thread / SUM_PIECES * SUM_LINE + thread % SUM_PIECES * 16,
                      XPU_THREADS / SUM_PIECES * SUM_LINE),
                  share_of<TILE_M * SCALE_BYTES, 4>(
                      x + staged.scales(t.first, t.row), t.m * SCALE_BYTES, rows * SCALE_BYTES,
                      AT_X_SCALES + thread % QUARTERS * SCALE_LINE + thread / QUARTERS * 4, XPU_THREADS / QUARTERS * 4),
                  stored.all + stored.block(group, t.first), stored.all + stored.tail(group, t.first),
                  rows == TILE_M};
}

/* Rows that there are not are multiplied all the same. */
inline void clear_x(const stage &first)
{
    const four_words zeros = {};
    for (int s = 0; s < STAGES; ++s)
        for (int i = xpu::thread() * 16; i < AT_W; i += XPU_THREADS * 16)
            first.store<four_words>(s * STAGE_BYTES + i, zeros);
    xpu::barrier();
}

/* Where a lane's own part of the wave's first eight rows is in a stage; the next ones are as far as their rows. */
struct lane_x {
    int words[x_place::count][2], scales[SUMS]; /* of quarters 0 and 1; of quarter 0 */

    explicit lane_x(int row)
    {
        const x_place f = {};
        const part_sum place = {};
#pragma unroll
        for (int i = 0; i < f.count; ++i)
            for (int q = 0; q < 2; ++q) words[i][q] = place_of_piece(row + f.row(i), q * 4 + f.k(i) / 4);
#pragma unroll
        for (int e = 0; e < SUMS; ++e) scales[e] = AT_X_SCALES + (row + place.row(e)) * 4;
    }
    x_quarter load(const slot &from, int rows, int q) const
    {
        x_quarter x;
#pragma unroll
        for (int i = 0; i < x_place::count; ++i)
            x.piece[i] = from.load<four_words>(words[i][q % 2] + (rows * BLOCK_K + q / 2 * 128));
        return x;
    }
    float scale(const slot &from, int rows, int q, int e) const
    {
        return from.load<float>(scales[e] + (q * SCALE_LINE + rows * 4));
    }
};

/* The scales of a wave's columns. A column is shared by lanes that would each have to work them out. */
struct scale_table {
    static constexpr int WIDTH = ACROSS * GROUP, PLACES = QUARTERS * WIDTH, SIZE = PLACES * (PARTS == 1 ? 4 : 5);
    xpu::shared<float> memory; /* [quarter][column] four of w_scales, then the fifth, where there is one */

    /* All lanes of the wave take part. */
    void make(const slot &from, int first) const
    {
        xpu::wave_barrier();
        for (int column = xpu::lane(); column < WIDTH; column += XPU_WAVE) {
            const int at = first + column / GROUP * SLOT_BYTES;
            const head h = load_head(from, at, at + STORED_BYTES, column % GROUP);
#pragma unroll
            for (int q = 0; q < QUARTERS; ++q) {
                const w_scales s = scales_of(h, q);
                const int place = q * WIDTH + column;
                four_floats four = {};
                for (int i = 0; i < 2 * PARTS; ++i) four[i] = s.of[i];
                if (PARTS == 1) four[2] = s.begin;
                else memory[PLACES * 4 + place] = s.begin;
                memory.store<four_floats>(place * 4, four);
            }
        }
        xpu::wave_barrier();
    }
    w_scales of(int q, int column) const
    {
        const int place = q * WIDTH + column;
        const four_floats four = memory.load<four_floats>(place * 4);
        w_scales s;
        for (int i = 0; i < 2 * PARTS; ++i) s.of[i] = four[i];
        s.begin = PARTS == 1 ? four[2] : memory.load<float>(PLACES * 4 + place);
        return s;
    }
};

/* What the weights of a block lack, at first: their scales and mins are not needed any longer then. */
inline void take_all_mins(sums_of_wave &s, const stage &now, int row, int first)
{
    const xpu::shared<xpu::half> sums = (now + (AT_X_SUMS + row * SUM_LINE)).as<xpu::half>();
    sum_heads heads[ACROSS];
    w_mins mins[ACROSS];
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
        heads[j] = load_heads(now.as<const uint8_t>(), first + j * SLOT_BYTES);
        mins[j] = load_mins(now.as<const uint8_t>(), first + j * SLOT_BYTES);
    }
#pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        x_sums x;
        xpu::load(x, sums, i * TILE_ROWS * SUM_LINE / 2, SUM_LINE / 2);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) take_mins(s.of[i][j], x, mins[j], heads[j]);
    }
}

/* The wave's share of a block of k: rows of the tile from `row` on, groups from `group` on. */
inline void multiply_block(sums_of_wave &s, const stage &now, const lane_x &own, const scale_table &scales, int row,
                           int group)
{
    const slot from = now.as<const uint8_t>();
    const part_sum place = {};
    const int first = AT_W + group * SLOT_BYTES;
    scales.make(from, first);
    take_all_mins(s, now, row, first);
#pragma unroll
    for (int q = 0; q < QUARTERS; ++q) {
        w_quarter w[ACROSS];
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            load_operands(w[j], from, first + j * SLOT_BYTES, q);
            for (int e = 0; e < SUMS; ++e) w[j].scales[e] = scales.of(q, j * GROUP + place.column(e));
        }
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            const x_quarter x = own.load(from, i * TILE_ROWS, q);
            float scale[SUMS];
            for (int e = 0; e < SUMS; ++e) scale[e] = own.scale(from, i * TILE_ROWS, q, e);
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) add_quarter(s.of[i][j], x, scale, w[j]);
        }
    }
}

inline void multiply_tile(sums_of_wave &s, const stage &memory, const tile &t, const weights &stored, const bytes &x,
                          int row, int group)
{
    XPU_SHARED(float, tables, WAVES * scale_table::SIZE);
    const scale_table scales = {tables + xpu::wave() * scale_table::SIZE};
    const lane_x own(row);
    supply next = open_supply(t, stored, x);
    if (!next.is_whole) clear_x(memory);
    for (int i = 0; i < STAGES - 1; ++i) {
        if (t.first + i < t.end) next.fetch(memory + i * STAGE_BYTES);
        xpu::copy_commit();
    }
    int place = 0;
    stage now = memory, free = memory + (STAGES - 1) * STAGE_BYTES;
    for (int64_t b = t.first; b < t.end; ++b) {
        xpu::copy_wait<STAGES - 2>();
        xpu::barrier();
        if (b + STAGES - 1 < t.end) next.fetch(free);
        xpu::copy_commit();
        multiply_block(s, now, own, scales, row, group);
        place = place + 1 < STAGES ? place + 1 : 0;
        free = now;
        now = memory + place * STAGE_BYTES;
    }
    xpu::copy_wait<0>();
}

/* Where staged x has what the results of a row are multiplied with. */
inline int64_t row_scale(const tile &t, int64_t row) { return staged_x{t.m, t.k / BLOCK_K}.up(row); }

/* What a column's results are multiplied with. */
inline float column_scale(const weights &, int64_t, int) { return 1.0f; }

#include "loaded_factors.h"

#endif
