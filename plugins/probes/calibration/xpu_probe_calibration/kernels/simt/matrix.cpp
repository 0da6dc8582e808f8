/* n / 256 tiles y (16, 16) = start[tile % 16] and k / K times a (16, K) by the transpose of b (16, K).
 * A wave has XPU_CHAINS tiles in registers at once, none of which waits for another; each begins with a
 * number of its own, for equal ones could be computed once. XPU_WIDE: half-precision operands. */
#include "xpu_simt.h"

#if XPU_WIDE
using element = xpu::half;
using sum = float;
constexpr int K = 16;
static inline element made(int8_t v) { return xpu::from_float<element>((float)v); }
#else
using element = int8_t;
using sum = int32_t;
constexpr int K = 32;
static inline element made(int8_t v) { return v; }
#endif

XPU_KERNEL(xpu::global<const int8_t> a, xpu::global<const int8_t> b, xpu::global<const int8_t> start,
           xpu::global<sum> y, int64_t n, int64_t k)
{
    XPU_SHARED(element, left, 16 * K);
    XPU_SHARED(element, right, 16 * K);
    for (int i = xpu::thread(); i < 16 * K; i += xpu::threads()) {
        const int8_t one = a[i], other = b[i];
        left[i] = made(one);
        right[i] = made(other);
    }
    xpu::barrier();
    xpu::matrix_a<element, 16, 16, K> rows;
    xpu::matrix_b<element, 16, 16, K> columns;
    xpu::load(rows, left, 0, K);
    xpu::load(columns, right, 0, K);

    /* The grid is made for waves of 32; wider ones have more than one turn. */
    const int64_t tiles = n / 256, waves = xpu::threads() / xpu::wave_width;
    const int64_t step = xpu::grid_x() * waves * XPU_CHAINS;
    for (int64_t tile = (xpu::block_x() * waves + xpu::wave()) * XPU_CHAINS; tile < tiles; tile += step) {
        xpu::accumulator<sum, 16, 16, K> c[XPU_CHAINS];
        for (int j = 0; j < XPU_CHAINS; ++j) {
            const int8_t first = start[(tile + j) % 16];
            xpu::fill(c[j], (sum)first);
        }
        for (int64_t i = 0; i < k; i += K)
            for (int j = 0; j < XPU_CHAINS; ++j) xpu::multiply(c[j], rows, columns);
        for (int j = 0; j < XPU_CHAINS; ++j)
            for (int e = 0; e < c[j].count; ++e) y[(tile + j) * 256 + c[j].row(e) * 16 + c[j].column(e)] = c[j][e];
    }
}
