from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuBuildError
from xpu.spec import CompiledCode, KernelUnit, Launch
from xpu_backend_cpu.backend import CpuBackend
from xpu_backend_cpu.compiler import CpuCompiler
from xpu_backend_cpu.device import CpuDevice
from xpu_backend_cpu.toolchain import find_toolchain


def _unit(text: str, entry: str = "kernel_under_test", **defines: str) -> KernelUnit:
    return KernelUnit(f"family.{entry}", entry, f'#include "xpu_c.h"\n{text}', {}, defines)


@pytest.fixture
def unit() -> Callable[..., KernelUnit]:
    return _unit


@pytest.fixture
def compiler() -> CpuCompiler:
    return CpuCompiler(find_toolchain(), workers=2)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a kernel's text and return the file; each text once."""
    directory = tmp_path_factory.mktemp("kernels")

    def make(text: str, entry: str = "kernel_under_test") -> Path:
        path = directory / f"{abs(hash((text, entry)))}.so"
        if not path.exists():
            compiler = CpuCompiler(find_toolchain(), workers=1)
            (code,) = compiler.compile([_unit(text, entry)], "native", deadline_s=60)
            assert isinstance(code, CompiledCode), code
            path.write_bytes(code.code)
        return path

    return make


@pytest.fixture
def open_device() -> Callable[[int], CpuDevice]:
    def make(workers: int) -> CpuDevice:
        device = CpuBackend(workers=workers).open()
        assert isinstance(device, CpuDevice)
        return device

    return make


@pytest.fixture
def launcher(
    build: Callable[..., Path], open_device: Callable[[int], CpuDevice]
) -> Callable[..., Callable[[], None]]:
    """Compile a kernel and pack a launch of it on numpy arrays."""

    def make(
        text: str, arrays: Sequence[np.ndarray[Any, Any]], sizes: Sequence[int], workers: int = 2
    ) -> Callable[[], None]:
        device = open_device(workers)
        kernel = device.load(build(text), "kernel_under_test")
        taken = [device.import_array(array, writable=True) for array in arrays]
        return device.launcher(kernel, Launch(), taken, sizes)

    return make


@pytest.fixture
def fake_cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a compiler in place that says what it is, and does `script` when it compiles."""
    real = os.environ.get("CC") or shutil.which("cc")

    def make(script: str) -> None:
        path = tmp_path / "fake-cc"
        answers = f'for a in "$@"; do case $a in -dM|-E) exec {real} "$@";; esac; done'
        path.write_text(f"#!/bin/sh\n{answers}\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))

    return make


@pytest.fixture
def error_of() -> Callable[[CompiledCode | XpuBuildError], str]:
    def text(result: CompiledCode | XpuBuildError) -> str:
        assert isinstance(result, XpuBuildError), "the compilation should have failed"
        return str(result)

    return text
