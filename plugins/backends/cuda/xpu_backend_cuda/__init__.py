"""NVIDIA's GPUs as a backend of XPU: NVRTC compiles the dialect `simt`, the driver runs it."""
