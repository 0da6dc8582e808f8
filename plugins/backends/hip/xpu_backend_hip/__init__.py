"""AMD's GPUs as a backend of XPU: clang compiles the dialect `simt`, HIP runs it."""
