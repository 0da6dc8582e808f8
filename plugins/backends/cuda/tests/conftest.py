from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from xpu.errors import XpuBuildError
from xpu.spec import KernelUnit
from xpu_backend_cuda.compiler import CudaCompiler
from xpu_backend_cuda.toolchain import find_nvrtc


@pytest.fixture(scope="session")
def compiler() -> CudaCompiler:
    """The compiler half; tests that need it are skipped where there is none."""
    try:
        return CudaCompiler(find_nvrtc())
    except XpuBuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def unit() -> Callable[..., KernelUnit]:
    """Make a unit of a kernel's text."""

    def make(text: str, includes: Mapping[str, str] | None = None, **defines: object) -> KernelUnit:
        named = {name: str(value) for name, value in defines.items()}
        source = f'#include "xpu_simt.h"\n{text}'
        return KernelUnit("family.member", "kernel_under_test", source, includes or {}, named)

    return make
