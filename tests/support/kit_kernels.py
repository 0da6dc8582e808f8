"""The kit's kernels as Python functions, and a null backend that runs them."""

from __future__ import annotations

from xpu.spec import KernelSource
from xpu.testing import NullBackend, NullLaunch

DIALECT = "python"
SOURCES = tuple(
    KernelSource(DIALECT, "see run()", design=design) for design in ("kit_table", "kit_in_place")
)


def run(launch: NullLaunch) -> None:
    """Run whichever of the kit's kernels a launch is of."""
    if "kit_table" in launch.kernel:
        a, b, y = launch.buffers
        factor = type(a[0])(int(launch.defines["XPU_FACTOR"]))
        y[...] = (factor * (a[:, None] - b[None, :])).ravel()
    else:
        x, y = launch.buffers
        y += x


class PythonBackend(NullBackend):
    """The null backend with a function for the kit's kernels."""

    def __init__(self) -> None:
        super().__init__(DIALECT, run)
