/* Activations of the 8-bit engines: [k / 256][m] quantised blocks.
 *
 * The rows of one k block lie together, a constant number of bytes apart, so that a loop over some
 * rows needs one address. m is padded by rows of zeros to what such a loop may take at once.
 */
#ifndef KQUANT_DOT_ROWS_H
#define KQUANT_DOT_ROWS_H

#include "plain_rows.h"
#include "dot.h"

enum { ROW_STEP = MOST_ROWS };

static inline int64_t act_row_bytes(int64_t k) { return k / BLOCK_K * (int64_t)sizeof(quantised); }

static inline float take_row(uint8_t *rows, int64_t row, int64_t padded_m, const activation *x, int64_t k)
{
    quantised *first = (quantised *)rows + row;
    if (x) return quantise_row(x, k, first, padded_m);
    for (int64_t b = 0; b < k / BLOCK_K; ++b) memset(first + b * padded_m, 0, sizeof *first);
    return 0.0f;
}

/* Row `row` of a k block. */
static inline const quantised *act_block(const task *t, int64_t row, int64_t block)
{
    return (const quantised *)t->acts + block * t->padded_m + row;
}

#endif
