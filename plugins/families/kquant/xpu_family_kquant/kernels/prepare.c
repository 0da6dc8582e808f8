/* Weight preparation: GGUF blocks to the layout of blocks.h. Runs once, at load.
 *
 * buffers: raw (n rows of k / 256 blocks, any alignment), prepared (64-byte aligned)
 * sizes:   n, k
 */
#include "xpu_c.h"
#include "blocks.h"

/* Word `at / 4` of one column's block into lane `column` of a line. */
static void put_word(uint8_t *line, int column, const uint8_t *block, int at)
{
    memcpy(line + column * 4, block + at, 4);
}

static void prepare_column(uint8_t *stored, uint8_t *d, int column, const uint8_t *block)
{
    for (int t = 0; t < SCALE_LINES; ++t)
        put_word(stored + AT_SCALES + t * LINE, column, block, RAW_SCALES + t * 4);
    for (int t = 0; t < HIGH_LINES; ++t)
        put_word(stored + high_line(t), column, block, RAW_HIGH + t * 4);
    for (int t = 0; t < 32; ++t)
        put_word(stored + low_line(t), column, block, RAW_LOW + t * 4);
#if HAS_MINS
    memcpy(d + column * 2, block, 2);
    memcpy(d + 32 + column * 2, block + 2, 2);
#else
    memcpy(d + column * 2, block + RAW_D, 2);
#endif
}

static void prepare_group(const uint8_t *raw, uint8_t *prepared, int64_t group, int64_t n, int64_t k)
{
    const weights w = open_weights(prepared, n, k);
    const int64_t columns = at_most(GROUP, n - group * GROUP);
    for (int64_t b = 0; b < w.blocks; ++b) {
        uint8_t *stored = prepared + (stored_block(&w, group, b) - prepared);
        uint8_t *d = prepared + (block_d(&w, group, b) - prepared);
        if (columns < GROUP) {
            memset(stored, 0, STORED_BYTES);
            if (TAIL_BYTES) memset(d, 0, TAIL_BYTES);
        }
        for (int64_t c = 0; c < columns; ++c)
            prepare_column(stored, d, (int)c, raw + ((group * GROUP + c) * w.blocks + b) * RAW_BYTES);
    }
}

XPU_KERNEL
{
    const int64_t n = sizes[0], k = sizes[1], groups = ceil_div(n, GROUP);
    for (int64_t g; (g = xpu_take(team, 1)) < groups;)
        prepare_group((const uint8_t *)buffers[0], (uint8_t *)buffers[1], g, n, k);
}
