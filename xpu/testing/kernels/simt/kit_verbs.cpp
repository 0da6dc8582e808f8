/* What each verb of the dialect gives on x (n), 64 elements a block, one a thread; n is a multiple
 * of 64. y (n, 14): the columns stand in the design `kit_verbs`, which says what is right. */
#include "xpu_simt.h"

enum { COLUMNS = 14 };

XPU_KERNEL(xpu::global<const float> x, xpu::global<float> y, int64_t n)
{
    XPU_SHARED(float, sums, 64);
    XPU_SHARED(float, copied, 64);
    const int thread = xpu::thread();
    const int64_t at = (int64_t)xpu::block_x() * 64 + thread;
    const float v = x[at];
    const uint32_t whole = (uint32_t)(int32_t)v & 0xffu, bytes = whole * 0x01010101u;
    float made[COLUMNS];
    made[0] = (float)xpu::wave_width;
    made[1] = xpu::shuffle(v, 3);
    made[2] = xpu::shuffle_xor(v, 5);
    made[3] = xpu::shuffle_down(v, 2);
    made[4] = xpu::wave_sum(v);
    made[5] = xpu::wave_max(v);
    made[6] = xpu::group_sum<8>(v);
    made[7] = xpu::wave_any(v > 90.0f) ? 1.0f : 0.0f;
    made[8] = (float)xpu::dot4(bytes, 0x02ff0301u, 7);
    made[9] = (float)xpu::dot4_us(bytes, 0x02ff0301u, 7);
    made[10] = xpu::to_float(xpu::from_float<xpu::half>(v * 0.34567f));
    made[11] = xpu::to_float(xpu::from_float<xpu::bfloat16>(v * 0.34567f));
    xpu::copy_async(copied, thread, x, at, 4);
    xpu::copy_commit();
    sums[thread] = v;
    for (int half = 32; half; half /= 2) {
        xpu::barrier();
        if (thread < half) {
            const float mine = sums[thread], other = sums[thread + half];
            sums[thread] = mine + other;
        }
    }
    xpu::copy_wait<0>();
    xpu::barrier();
    made[12] = sums[0];
    made[13] = copied[63 - thread];
    for (int i = 0; i < COLUMNS; ++i) y[at * COLUMNS + i] = made[i];
}
