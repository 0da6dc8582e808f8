/* y (m, n) = x (m, k) times the transpose of the weights (n, k), in float32 throughout.
 * buffers: prepared weights, x, y; sizes: m, n, k.
 * A work-item makes XPU_ROWS columns of y that lie XPU_THREADS apart; group_id(1) is the row. */
#include "kquant.h"

/* Unit `u` of this work-item's block. */
#define AT(u) w[(u) * GROUP]

static float half_at(global const ushort *w, int u)
{
    return vload_half(u * GROUP, (global const half *)w);
}

#if defined(XPU_FORMAT_Q6_K)

static float block_product(global const ushort *w, global const float *x)
{
    float sum = 0.0f;
    for (int run = 0; run < 8; ++run) { /* 32 weights with two scales */
        const int upper = run / 4, part = run % 4;
        float halves[2] = {0.0f, 0.0f};
        for (int u = 0; u < 16; ++u) {
            const ushort low = AT(upper * 32 + part % 2 * 16 + u) >> (part / 2 * 4);
            const ushort high = AT(PAIRS + upper * 16 + u) >> (part * 2);
            for (int b = 0; b < 2; ++b) {
                const int q = (low >> (8 * b) & 15) | (high >> (8 * b) & 3) << 4;
                halves[u / 8] += (float)(q - 32) * x[run * 32 + u * 2 + b];
            }
        }
        const ushort scales = AT(SCALES + run);
        sum += (float)(char)(scales & 255) * halves[0] + (float)(char)(scales >> 8) * halves[1];
    }
    return half_at(w, D) * sum;
}

#else

/* Byte `i` of the twelve that hold eight 6-bit scales and eight 6-bit mins. */
static int packed(global const ushort *w, int i) { return AT(2 + i / 2) >> (8 * (i % 2)) & 255; }

static int scale_of(global const ushort *w, int s)
{
    return s < 4 ? packed(w, s) & 63 : (packed(w, s + 4) & 15) | packed(w, s - 4) >> 6 << 4;
}

static int min_of(global const ushort *w, int s)
{
    return s < 4 ? packed(w, s + 4) & 63 : packed(w, s + 4) >> 4 | packed(w, s) >> 6 << 4;
}

static float block_product(global const ushort *w, global const float *x)
{
    float scaled = 0.0f, least = 0.0f;
    for (int s = 0; s < 8; ++s) { /* 32 weights with one scale */
        float sum = 0.0f, total = 0.0f;
        for (int u = 0; u < 16; ++u) {
            const ushort nibbles = AT(NIBBLES + s / 2 * 16 + u) >> (s % 2 * 4);
            for (int b = 0; b < 2; ++b) {
                int q = nibbles >> (8 * b) & 15;
#ifdef FIFTHS
                q |= (AT(FIFTHS + u) >> (8 * b + s) & 1) << 4;
#endif
                const float value = x[s * 32 + u * 2 + b];
                sum += (float)q * value;
                total += value;
            }
        }
        scaled += (float)scale_of(w, s) * sum;
        least += (float)min_of(w, s) * total;
    }
    return half_at(w, 0) * scaled - half_at(w, 1) * least;
}

#endif

__attribute__((reqd_work_group_size(XPU_THREADS, 1, 1)))
kernel void XPU_ENTRY(global const ushort *weights, global const float *x, global float *y,
                      long m, long n, long k)
{
    const long blocks = k / BLOCK_K, row = get_group_id(1);
    for (int r = 0; r < XPU_ROWS; ++r) {
        const long column = ((long)get_group_id(0) * XPU_ROWS + r) * XPU_THREADS + get_local_id(0);
        if (column >= n) return;
        global const ushort *w = weights + column / GROUP * blocks * UNITS * GROUP + column % GROUP;
        float sum = 0.0f;
        for (long b = 0; b < blocks; ++b)
            sum += block_product(w + b * UNITS * GROUP, x + row * k + b * BLOCK_K);
        y[row * n + column] = sum;
    }
}
