/* What the driver hands an engine: a tile of y to compute, and a run of decoded panels. */
#ifndef KQUANT_TASK_H
#define KQUANT_TASK_H

#include "activations.h"
#include "decode.h"

_Static_assert(XPU_TILE_M > 0 && XPU_UNROLL > 0, "tile_m and unroll are at least 1");
_Static_assert(XPU_TILE_K % BLOCK_K == 0 && XPU_TILE_N % GROUP == 0, "tile_k is in blocks, tile_n in groups");

enum { PANEL_BLOCKS = XPU_TILE_K / BLOCK_K, TILE_GROUPS = XPU_TILE_N / GROUP };

typedef struct task {
    const weights *w;
    const uint8_t *acts;   /* activations of all rows, in the engine's form */
    int64_t padded_m;      /* how many rows they are */
    int64_t row, rows;     /* the tile: rows of y, */
    int64_t group, groups; /* and groups of 16 columns */
} task;

/* Panels of some k blocks of all groups of a task: [TILE_GROUPS][PANEL_BLOCKS]. */
typedef struct panel_run {
    const uint8_t *panels;
    int64_t first, blocks;
} panel_run;

#endif
