"""XPU probe: variants of the matrix-vector product, decided at load."""
