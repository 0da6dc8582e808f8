kernel void XPU_ENTRY(global const float *x, global float *y, long n)
{
    const long start = get_global_id(0) * XPU_STEP;
    for (long i = start; i < n && i < start + XPU_STEP; i++) y[i] += x[i];
}
