"""XPU probe: peaks, bandwidth and latency of a device."""
