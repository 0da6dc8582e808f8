/* Results as a caller wants them: float, or rounded to half or bfloat16. */
#ifndef KQUANT_RESULTS_H
#define KQUANT_RESULTS_H

#include "xpu_simt.h"

#if defined(XPU_Y_FLOAT16)
using result = xpu::half;
#elif defined(XPU_Y_BFLOAT16)
using result = xpu::bfloat16;
#else
#define KQUANT_ADDS_RESULTS 1
using result = float;
#endif

using results = xpu::global<result>;

inline void store_result(const results &y, int64_t at, float v) { y[at] = xpu::from_float<result>(v); }

/* One of several parts of a sum. They are added up in float alone, where none of them is rounded before: no
 * other launch has more than one. */
inline void store_part(const results &y, int64_t at, float v)
{
#ifdef KQUANT_ADDS_RESULTS
    if (xpu::grid_z() != 1) {
        xpu::atomic_add(y, at, v);
        return;
    }
#endif
    store_result(y, at, v);
}

#endif
