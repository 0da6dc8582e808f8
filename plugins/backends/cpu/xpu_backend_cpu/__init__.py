"""The host's processor as a backend of XPU: C kernels, worker threads, a host clock."""
