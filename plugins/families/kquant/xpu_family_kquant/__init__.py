"""Kernel designs for GGUF K-quant weights (Q4_K, Q5_K, Q6_K)."""
