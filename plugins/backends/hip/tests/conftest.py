from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from xpu.errors import XpuBuildError
from xpu.spec import KernelUnit
from xpu_backend_hip.toolchain import find_toolchain


@pytest.fixture(scope="session")
def compiler():
    """The compiler half; tests that need it are skipped where there is none."""
    try:
        toolchain = find_toolchain()
    except XpuBuildError as error:
        pytest.skip(str(error))
    from xpu_backend_hip.compiler import HipCompiler

    return HipCompiler(toolchain)


@pytest.fixture(scope="session")
def unit() -> Callable[..., KernelUnit]:
    """Make a unit of a kernel's text."""

    def make(text: str, includes: Mapping[str, str] | None = None, **defines: object) -> KernelUnit:
        named = {name: str(value) for name, value in defines.items()}
        source = f'#include "xpu_simt.h"\n{text}'
        return KernelUnit("family.member", "kernel_under_test", source, includes or {}, named)

    return make
