"""The conformance kit, with its kernels in this distribution's dialect."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from xpu_backend_opencl.backend import OpenClBackend
from xpu_backend_opencl.sources import DIALECT

from xpu.spec import KernelSource
from xpu.testing import BackendSuite

_KERNELS = Path(__file__).parent / "kernels"
_HEADERS = resources.files("xpu.testing") / "kernels"


def _kernel(design: str) -> KernelSource:
    text = (_KERNELS / f"{design}.cl").read_text("utf-8")
    included = {
        file.name: file.read_text("utf-8")
        for file in _HEADERS.iterdir()
        if file.name.endswith(".h")
    }
    return KernelSource(DIALECT, text, included, design=design)


class TestOpenCl(BackendSuite):
    backend = OpenClBackend
    kernels = (_kernel("kit_table"), _kernel("kit_in_place"))
