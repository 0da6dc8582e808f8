/* What the engines without matrix tiles have in common: sums as rows of lines, nothing to set up. */
#ifndef KQUANT_PLAIN_ROWS_H
#define KQUANT_PLAIN_ROWS_H

#include "task.h"

typedef int machine_state;

static inline void begin(int64_t m, machine_state *before) { *before = (int)m; }
static inline void end(const machine_state *before) { (void)before; }

/* 16 neighbouring sums of a task: [rows][groups][16]. */
static inline const float *sums_at(const float *sums, int64_t row, int64_t group, int64_t rows, int64_t groups)
{
    (void)rows;
    return sums + (row * groups + group) * GROUP;
}

#endif
