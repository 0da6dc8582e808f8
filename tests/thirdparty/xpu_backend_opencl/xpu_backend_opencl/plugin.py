"""The entry point: what this distribution brings to XPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from xpu.spec import Backend, KernelSource, hookimpl
from xpu_backend_opencl.backend import OpenClBackend
from xpu_backend_opencl.sources import qmatvec

XPU_SPEC_VERSION: Final = 1


@hookimpl
def xpu_backends() -> Iterable[Backend]:
    """Bring the backend ``opencl``."""
    return (OpenClBackend(),)


@hookimpl
def xpu_kernel_sources() -> Iterable[KernelSource]:
    """Bring the design ``qmatvec`` in the dialect ``opencl_c``."""
    return (qmatvec(),)


@hookimpl
def xpu_config() -> Iterable[Path]:
    """Bring members of the matrix-vector families in that dialect."""
    return (Path(__file__).with_name("families.toml"),)
