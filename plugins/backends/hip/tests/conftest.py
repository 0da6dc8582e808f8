from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

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


@pytest.fixture(scope="session")
def notes() -> Callable[[Path], Mapping[str, int]]:
    """Read the numbers of a code object's metadata with `llvm-readelf`, an independent reader."""
    names = ("llvm-readelf", *(f"llvm-readelf-{release}" for release in range(40, 13, -1)))
    program = next(filter(None, map(shutil.which, names)), None)

    def read(path: Path) -> Mapping[str, int]:
        if program is None:
            pytest.skip("there is no llvm-readelf to compare with")
        said = subprocess.run(
            [program, "--notes", path], capture_output=True, text=True, check=True
        )
        found = re.findall(r"\.(\w+):\s+(\d+)$", said.stdout, re.M)
        return {key: int(value) for key, value in found}

    return read


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make a machine with a stub for its runtime."""
    sys.path.insert(0, str(Path(__file__).parent / "stub"))
    try:
        import hip_stub
    except ImportError as error:
        pytest.skip(f"the stub is described by hip-python's constants: {error}")
    finally:
        sys.path.remove(str(Path(__file__).parent / "stub"))

    def make(architecture: str = "gfx1151", own: dict[int, int] | None = None) -> Path:
        directory = tmp_path_factory.mktemp("machine")
        try:
            hip_stub.install(directory, architecture)
        except (ImportError, LookupError) as error:
            pytest.skip(f"the stub cannot be made: {error}")
        hip_stub.describe(directory, architecture, own)
        return directory

    make.hip_stub = hip_stub
    return make
