"""XPU problem source: the weight matrices of a GGUF model file."""
