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

/* 4 k of one part: `line` is 4 part + t. */
inline uint32_t low_word(const raw_block &from, int quarter, int line)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) {
        const int k = quarter * QUARTER_K + line * 4 + i;
        word |= ((from.quant(k) & 15) | (from.quant(k + 32) & 15) << 4) << (8 * i);
    }
    return word;
}

/* The bits above the nibbles of a quarter, or of two; `at` is the word among those of a column. */
inline uint32_t high_word(const raw_block &from, int at, int t)
{
    const int fields = HIGH_BITS ? 8 / HIGH_BITS : 0; /* parts that a byte holds */
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i)
        for (int part = 0; part < fields; ++part)
            word |= from.quant((at * fields + part) * 16 + t * 4 + i) >> 4 << (8 * i + part * HIGH_BITS);
    return word;
}

inline uint32_t head_word(const raw_block &from, int word)
{
    uint32_t made = 0;
#if defined(XPU_FORMAT_Q6_K)
    for (int i = 0; i < 4; ++i) made |= from.scale(word * 4 + i) << (8 * i);
#else
    if (word == 0) return from.d() | from.dmin() << 16;
    for (int q = 0; q < QUARTERS; ++q) {
        const uint32_t low = word < 3 ? from.scale(q * 2 + word - 1) : from.min(q * 2);
        made |= (low | (from.min(q * 2 + 1) >> (2 * (word - 1)) & 3) << 6) << (8 * q);
    }
#endif
    return made;
}

inline uint32_t stored_word(const group_block &g, int at)
{
    if (at < AT_HIGH) return head_word(g.of(at / 16), at % 16 / 4);
    const int i = at % 256 / 4, column = i / 32 * 8 + i % 32 / 4, t = i % 4; /* place_of, turned round */
    if (at < AT_LOW) return high_word(g.of(column), (at - AT_HIGH) / 256, t);
    const int line = (at - AT_LOW) / 256;
    return low_word(g.of(column), line / 2, line % 2 * 4 + t);
}

/* The least power of two times the largest |d| and |dmin| of a column that is 2^-10 or more. */
inline float factor_of(group_block g, int column)
{
    float top = 0.0f;
    for (g.b = 0; g.b < g.blocks; ++g.b) {
        const raw_block from = g.of(column);
        const float d = xpu::abs(xpu::to_float(xpu::half{(uint16_t)from.d()}));
        top = d > top ? d : top; /* a NaN is passed over: it shows in the products */
#if !defined(XPU_FORMAT_Q6_K)
        const float dmin = xpu::abs(xpu::to_float(xpu::half{(uint16_t)from.dmin()}));
        top = dmin > top ? dmin : top;
#endif
    }
    float factor = 1.0f;
    if (!(top > 0.0f && top < 0x1p17f)) return factor;
    while (top * factor >= 0x1p-9f) factor *= 0.5f;
    while (top * factor < 0x1p-10f) factor *= 2.0f;
    return factor;
}

XPU_KERNEL(xpu::global<const uint8_t> raw, xpu::global<uint8_t> prepared, int64_t n, int64_t k)
{
    const weights to = {prepared, ceil_div(n, GROUP), k / BLOCK_K};
    const int64_t all = to.groups * to.blocks;
    const int words = (STORED_BYTES + TAIL_BYTES) / 4;
    const int64_t start = (int64_t)xpu::block_x() * xpu::threads() + xpu::thread();
    const int64_t step = (int64_t)xpu::grid_x() * xpu::threads();
    for (int64_t i = start; i < all * words; i += step) {
        const int64_t index = i / words, group = index / to.blocks, b = index % to.blocks;
        const int at = (int)(i % words) * 4;
        const group_block g{raw, group * GROUP, n, to.blocks, b};
        if (at < STORED_BYTES) {
            prepared.store<uint32_t>(to.block(group, b) + at, stored_word(g, at));
        } else {
            const int column = (at - STORED_BYTES) / 2;
            prepared.store<uint32_t>(to.tail(group, b) + column * 2, g.of(column).d() | g.of(column + 1).d() << 16);
        }
    }
    for (int64_t i = start; i < to.groups * GROUP; i += step) {
        const group_block g{raw, i / GROUP * GROUP, n, to.blocks, 0};
        prepared.store<float>(to.factors(i / GROUP) + i % GROUP * 4, factor_of(g, (int)(i % GROUP)));
    }
}
