"""XPU probes: whether batched kernels, matrix operations and tiles pay on a part."""
