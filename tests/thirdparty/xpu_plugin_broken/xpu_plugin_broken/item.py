"""Its hook returns a list of something else."""

from xpu.spec import hookimpl


@hookimpl
def xpu_kernel_sources():
    return ["kernel void f() {}"]
