/* Activations of the 8-bit engines: rows of quantised blocks. */
#ifndef KQUANT_DOT_ROWS_H
#define KQUANT_DOT_ROWS_H

#include "plain_rows.h"
#include "dot.h"

static inline int64_t act_row_bytes(int64_t k) { return k / BLOCK_K * (int64_t)sizeof(quantised); }

static inline float take_row(uint8_t *rows, int64_t row, int64_t padded_m, const float *x, int64_t k)
{
    (void)padded_m;
    return quantise_row(x, k, (quantised *)(rows + row * act_row_bytes(k)));
}

#endif
