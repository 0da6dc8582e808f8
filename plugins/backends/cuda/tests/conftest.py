from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
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


@attrs.frozen
class Figures:
    """What NVIDIA's `cuobjdump` reads of a CUBIN."""

    registers: int
    stack_bytes: int
    static_shared_bytes: int


@pytest.fixture(scope="session")
def vendor() -> Callable[..., str]:
    """Run a tool of NVIDIA's, an independent reader, and return what it says."""

    def said(name: str, *arguments: object) -> str:
        from cuda import pathfinder

        # Older releases of the finder know libraries alone.
        find = getattr(pathfinder, "find_nvidia_binary_utility", shutil.which)
        found = find(name)
        if found is None:
            pytest.skip(f"{name} is not installed: pip install nvidia-cuda-{name}")
        command = [str(found), *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return said


@pytest.fixture(scope="session")
def figures(vendor: Callable[..., str]) -> Callable[[Path, str], Figures]:
    """Read a CUBIN for a target with `cuobjdump`."""

    def read(path: Path, target: str) -> Figures:
        usage = vendor("cuobjdump", "-res-usage", path)
        told = {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED):(\d+)", usage)}
        # From sm_90 on what the part reserves in a block is in the code's figure, where it has one.
        reserved = 0 if target in ("sm_80", "sm_89") or not told["SHARED"] else 1024
        return Figures(told["REG"], told["STACK"], told["SHARED"] - reserved)

    return read
