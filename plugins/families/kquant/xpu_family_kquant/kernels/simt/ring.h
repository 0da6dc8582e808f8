/* Weights on their way: each team of lanes has a ring of slots of its own in shared memory.
 *
 *   XPU_ROWS      groups of 16 columns of y that a block takes, side by side
 *   XPU_PREFETCH  blocks of weights that are on their way while one is multiplied
 *
 * The teams of a block share k, a block of 256 at a time, and add their sums up at the end: none waits for
 * another before.
 */
#ifndef KQUANT_RING_H
#define KQUANT_RING_H

#include "stored.h"

using slot = xpu::shared<const uint8_t>;

constexpr int SLOT_BYTES = STORED_BYTES + TAIL_BYTES; /* a block of a group with its part of the tail */

/* A block of a group to a slot, by WIDTH lanes of which this is number `lane`. `from` and `tail` are where the
 * block and its part of the tail begin. */
template <int WIDTH>
inline void fetch_slot(const xpu::shared<uint8_t> &to, const bytes &from, const bytes &tail, int lane)
{
    const xpu::shared<uint8_t> own_slot = to + lane * 16;
    const bytes own = from + lane * 16;
#pragma unroll
    for (int i = 0; i < STORED_BYTES; i += WIDTH * 16)
        if (i + WIDTH * 16 <= STORED_BYTES || i + lane * 16 < STORED_BYTES) xpu::copy_async(own_slot, i, own, i, 16);
    if (TAIL_BYTES && lane < TAIL_BYTES / 16) xpu::copy_async(own_slot, STORED_BYTES, tail, lane * 16, 16);
}

#ifdef XPU_ROWS
constexpr int GROUPS = XPU_ROWS, COLUMNS = GROUPS * GROUP, SLOTS = XPU_PREFETCH + 1;
constexpr int RING_BYTES = SLOTS * GROUPS * SLOT_BYTES;

/* The ring of a team of WIDTH lanes, of which this is number `lane`. */
template <int WIDTH> struct ring {
    xpu::shared<uint8_t> memory;
    weights stored;
    int64_t group;
    int lane;

    int64_t slot_of(int64_t step, int g) const { return (step % SLOTS * GROUPS + g) * SLOT_BYTES; }

    /* Block b to the slots of a step; one that is not there is an empty group of copies. */
    void fetch(int64_t step, int64_t b) const
    {
        if (b < stored.blocks) {
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                const int64_t of = xpu::min(group + g, stored.groups - 1);
                fetch_slot<WIDTH>(memory + slot_of(step, g), stored.all + stored.block(of, b),
                                  stored.all + stored.tail(of, b), lane);
            }
        }
        xpu::copy_commit();
    }
};
#endif

#endif
