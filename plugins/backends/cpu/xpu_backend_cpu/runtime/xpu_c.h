/* The prelude of the dialect `c`: what a kernel sees of its backend.
 *
 * A kernel is run by `workers` workers in `phases` phases. Within a phase a worker never
 * waits for another one: they may run at once or one after another, on any thread. What
 * all workers wrote in a phase is seen by all of them in the next.
 */
#ifndef XPU_C_H
#define XPU_C_H

#include <stddef.h>
#include <stdint.h>

typedef struct xpu_team {
    int32_t worker, workers; /* this worker, and how many there are */
    int32_t phase;           /* 0, 1, ...: a barrier lies between phases */
    int32_t reserved;
    int64_t *next;           /* this phase's shared work counter, 0 at its start */
    void *scratch;           /* 64-byte aligned, shared by all workers, undefined at phase 0 */
} xpu_team;

/* Take the next `count` items of the phase's work; gives the first of them. */
static inline int64_t xpu_take(const xpu_team *t, int64_t count) {
    return __atomic_fetch_add(t->next, count, __ATOMIC_RELAXED);
}

#define XPU_PASTE2(a, b) a##b
#define XPU_PASTE(a, b) XPU_PASTE2(a, b)
#define XPU_SYMBOL(suffix) XPU_PASTE(XPU_ENTRY, suffix)
#define XPU_EXPORT __attribute__((visibility("default")))

/* Number of phases; 1 when absent. */
#define XPU_PHASES(count) XPU_EXPORT const int32_t XPU_SYMBOL(_phases) = (count)
/* Bytes of scratch that a launch needs; none when absent. */
#define XPU_SCRATCH XPU_EXPORT int64_t XPU_SYMBOL(_scratch)(const int64_t *sizes, int32_t workers)
/* The kernel itself. */
#define XPU_KERNEL \
    XPU_EXPORT void XPU_ENTRY(const xpu_team *team, void *const *buffers, const int64_t *sizes)

#endif
