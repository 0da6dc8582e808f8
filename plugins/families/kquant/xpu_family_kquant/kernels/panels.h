/* The loop of the engines that decode weights into panels and let all rows of a task use them. */
#ifndef KQUANT_PANELS_H
#define KQUANT_PANELS_H

enum { ALL_PANELS = TILE_GROUPS * PANEL_BLOCKS * PANEL_BYTES };

static void compute_tile(const task *t, uint8_t *panels, float *sums)
{
    for (int64_t first = 0; first < t->w->blocks; first += PANEL_BLOCKS) {
        const panel_run run = {panels, first, at_most(PANEL_BLOCKS, t->w->blocks - first)};
        for (int64_t g = 0; g < t->groups; ++g)
            for (int64_t b = 0; b < run.blocks; ++b)
                decode_panel(t->w, t->group + g, first + b, panels + (g * PANEL_BLOCKS + b) * PANEL_BYTES);
        multiply(t, &run, sums);
    }
}

#endif
