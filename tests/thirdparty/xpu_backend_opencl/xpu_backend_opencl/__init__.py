"""OpenCL devices as a backend of XPU, and K-quant kernels in OpenCL C."""
