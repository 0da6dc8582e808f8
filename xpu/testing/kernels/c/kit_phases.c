/* What a launch in phases is promised, on x (n): y (n, 5), a column for each promise. The columns
 * stand in the design `kit_phases`, which says what is right. */
#include "xpu_c.h"

enum { COLUMNS = 5 };

XPU_PHASES(3);

/* x, and how many items each worker took */
XPU_SCRATCH { return (sizes[0] + workers) * (int64_t)sizeof(float); }

static float total(const float *taken, int32_t workers)
{
    float sum = 0;
    for (int32_t worker = 0; worker < workers; worker++) sum += taken[worker];
    return sum;
}

XPU_KERNEL
{
    const float *x = buffers[0];
    const int64_t n = sizes[0];
    float *y = buffers[1], *kept = team->scratch, *taken = kept + n;
    if (team->worker < 0 || team->worker >= team->workers) return;
    const float items = team->phase == 1 ? total(taken, team->workers) : 0;
    float mine = 0;
    for (int64_t i; (i = xpu_take(team, 1)) < n; mine++) {
        float *row = y + i * COLUMNS;
        if (team->phase == 0) {
            kept[i] = x[i];
        } else if (team->phase == 1) {
            row[0] = kept[n - 1 - i];
            row[1] = (float)((uintptr_t)team->scratch % 64);
            row[2] = items;
            row[3] = (float)team->phase;
        } else {
            row[4] = y[(n - 1 - i) * COLUMNS];
        }
    }
    if (team->phase == 0) taken[team->worker] = mine;
}
