/* A run of decoded panels: what the driver hands an engine to multiply. */
#ifndef KQUANT_PANEL_H
#define KQUANT_PANEL_H

#include "activations.h"
#include "decode.h"

typedef struct panel_run {
    const uint8_t *acts;       /* activations of all rows, in the engine's form */
    int64_t padded_m, k_blocks; /* how many rows and k blocks they have */
    const uint8_t *panels;
    int64_t group_bytes;       /* from one group of 16 columns to the next; blocks of k follow each other */
    int64_t groups;
    int64_t first, blocks;     /* k blocks of this run */
} panel_run;

#endif
