"""An emulated SIMT part as a backend of XPU: it runs kernels on the host and checks them."""
