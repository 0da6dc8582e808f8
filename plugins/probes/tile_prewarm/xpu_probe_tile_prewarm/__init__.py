"""XPU probe: tile shapes, decided at load."""
