/* Weight preparation: GGUF blocks to the layout of stored.h. Runs once, at load, in any number of blocks.
 *
 * buffers: raw (n rows of k / 256 blocks, any alignment), prepared (16-byte aligned)
 * sizes:   n, k
 *
 * Every thread makes whole words of the prepared array.
 */
#include "stored.h"

/* A raw block of one column; one that is not there is zeros. */
struct raw_block {
    bytes all;
    int64_t at;
    bool is_there;

    uint32_t byte(int i) const
    {
        if (!is_there) return 0;
        const uint8_t value = all[at + i];
        return value;
    }
    uint32_t half(int i) const { return byte(i) | byte(i + 1) << 8; }

    /* q of weight k, 4 to 6 bits */
    uint32_t quant(int k) const
    {
#if defined(XPU_FORMAT_Q6_K)
        const int in_half = k % 128;
        const uint32_t low = byte(k / 128 * 64 + in_half % 64) >> (in_half / 64 * 4) & 15;
        const uint32_t high = byte(RAW_HIGH + k / 128 * 32 + k % 32) >> (in_half / 32 * 2) & 3;
        return low | high << 4;
#else
        const uint32_t low = byte(RAW_LOW + k / 64 * 32 + k % 32) >> (k % 64 / 32 * 4) & 15;
#if defined(XPU_FORMAT_Q5_K)
        return low | (byte(RAW_HIGH + k % 32) >> (k / 32) & 1) << 4;
#else
        return low;
#endif
#endif
    }
#if defined(XPU_FORMAT_Q6_K)
    uint32_t d() const { return half(RAW_D); }
    uint32_t scale(int sub) const { return byte(RAW_SCALES + sub); }
#else
    uint32_t d() const { return half(0); }
    uint32_t dmin() const { return half(2); }
    uint32_t scale(int sub) const
    {
        if (sub < 4) return byte(RAW_SCALES + sub) & 63;
        return (byte(RAW_SCALES + sub + 4) & 15) | byte(RAW_SCALES + sub - 4) >> 6 << 4;
    }
    uint32_t min(int sub) const
    {
        if (sub < 4) return byte(RAW_SCALES + sub + 4) & 63;
        return byte(RAW_SCALES + sub + 4) >> 4 | byte(RAW_SCALES + sub) >> 6 << 4;
    }
#endif
};

struct group_block {
    bytes raw;
    int64_t column, n, blocks, b;

    raw_block of(int c) const
    {
        return raw_block{raw, ((column + c) * blocks + b) * RAW_BYTES, column + c < n};
    }
};

inline uint32_t low_word(const group_block &g, int line, int quarter, int column)
{
    const raw_block from = g.of(column);
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) {
        const int k = quarter * QUARTER_K + line * 4 + i;
        word |= ((from.quant(k) & 15) | (from.quant(k + 32) & 15) << 4) << (8 * i);
    }
    return word;
}

/* The bits above the nibble; `line` is one of HIGH_LINES. */
inline uint32_t high_word(const group_block &g, int line, int quarter, int column)
{
    const raw_block from = g.of(column);
    const int width = HIGH_LINES == 4 ? 2 : 1, fields = 8 / width;
    const int first = quarter * QUARTER_K + line * fields * 4; /* 32 k a run, and so 4 * fields k a line */
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i)
        for (int field = 0; field < fields; ++field)
            word |= from.quant(first + field * 4 + i) >> 4 << (8 * i + field * width);
    return word;
}

inline uint32_t scale_word(const group_block &g, int line, int quarter, int first)
{
    uint32_t word = 0;
    for (int c = 0; c < 4; ++c) {
        const raw_block from = g.of(first + c);
#if defined(XPU_FORMAT_Q6_K)
        const uint32_t value = from.scale(quarter * 4 + line);
#else
        const uint32_t low = line < 2 ? from.scale(quarter * 2 + line) : from.min(quarter * 2);
        const uint32_t value = low | (from.min(quarter * 2 + 1) >> (2 * line) & 3) << 6;
#endif
        word |= value << (8 * c);
    }
    return word;
}

/* Two neighbouring columns' d or dmin. `word` counts within 4 columns: d 0, d 1, dmin 0, dmin 1. */
inline uint32_t d_word(const group_block &g, int four, int word)
{
    const raw_block first = g.of(four * 4 + word % 2 * 2), second = g.of(four * 4 + word % 2 * 2 + 1);
#if !defined(XPU_FORMAT_Q6_K)
    if (word >= 2) return first.dmin() | second.dmin() << 16;
#endif
    return first.d() | second.d() << 16;
}

inline uint32_t stored_word(const group_block &g, int at)
{
    if (at >= AT_LOW) {
        const int i = (at - AT_LOW) / 4;
        return low_word(g, i / 64, i / 16 % 4, i % 16);
    }
    if (at >= AT_HIGH) {
        const int i = (at - AT_HIGH) / 4;
        return high_word(g, i / 64, i / 16 % 4, i % 16);
    }
    if (at >= AT_SCALES) {
        const int i = (at - AT_SCALES) / 4;
        return scale_word(g, i / UNITS, i % UNITS / 4, i % 4 * 4);
    }
    return d_word(g, at / 16, at % 16 / 4);
}

XPU_KERNEL(xpu::global<const uint8_t> raw, xpu::global<uint8_t> prepared, int64_t n, int64_t k)
{
    const int64_t blocks = k / BLOCK_K, all = ceil_div(n, GROUP) * blocks;
    const int words = (STORED_BYTES + TAIL_BYTES) / 4;
    const int64_t step = (int64_t)xpu::grid_x() * xpu::threads();
    for (int64_t i = (int64_t)xpu::block_x() * xpu::threads() + xpu::thread(); i < all * words; i += step) {
        const int64_t index = i / words;
        const int at = (int)(i % words) * 4;
        const group_block g{raw, index / blocks * GROUP, n, blocks, index % blocks};
        if (at < STORED_BYTES) {
            prepared.store<uint32_t>(index * STORED_BYTES + at, stored_word(g, at));
        } else {
            const int tail = at - STORED_BYTES;
            prepared.store<uint32_t>(all * STORED_BYTES + index * TAIL_BYTES + tail, d_word(g, tail / 8, tail % 8 / 4));
        }
    }
}
