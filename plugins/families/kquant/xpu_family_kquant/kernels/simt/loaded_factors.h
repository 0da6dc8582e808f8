/* What results are multiplied with, of all rows and columns of a lane: loaded before the first one is stored.
 *
 * The engine that includes it knows where that is: row_scale, column_scale.
 */
#ifndef KQUANT_LOADED_FACTORS_H
#define KQUANT_LOADED_FACTORS_H

struct factors {
    int64_t group; /* the wave's first one */
    float rows[DOWN][tile_sum::count], columns[ACROSS][tile_sum::count];

    factors(const xpu::shared<uint8_t> &, const tile &t, const weights &w, const bytes &staged, int row, int first)
        : group(t.group + first)
    {
        const tile_sum place = {};
#pragma unroll
        for (int e = 0; e < tile_sum::count; ++e) {
#pragma unroll
            for (int j = 0; j < ACROSS; ++j)
                columns[j][e] = column_scale(w, xpu::min(group + j, w.groups - 1), place.column(e));
#pragma unroll
            for (int i = 0; i < DOWN; ++i) {
                const int64_t r = t.row + row + i * MATRIX_ROWS + place.row(e);
                rows[i][e] = staged.load<float>(row_scale(t, xpu::min(r, t.m - 1)));
            }
        }
    }
    float of_row(int i, int e) const { return rows[i][e]; }
    float of_column(int j, int e) const { return columns[j][e]; }
};

#endif
