/* One element of kit_table, included by its kernels: a backend must find a source's own files. */
static inline float kit_table(float a, float b) { return XPU_FACTOR * (a - b); }
