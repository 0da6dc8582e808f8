from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import CompiledCode, DeviceArray, KernelUnit, Launch
from xpu_backend_emulator.backend import EmulatorBackend
from xpu_backend_emulator.compiler import EmulatorCompiler
from xpu_backend_emulator.device import EmulatorDevice, EmulatorKernel
from xpu_backend_emulator.toolchain import find_toolchain

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _generic_part(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XPU_EMULATOR_WAVE", "XPU_EMULATOR_FACTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=[32, 64])
def wave(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="session")
def compiler() -> EmulatorCompiler:
    return EmulatorCompiler(find_toolchain(), 32)


@pytest.fixture(scope="session")
def unit() -> Callable[..., KernelUnit]:
    def make(text: str, includes: Mapping[str, str] | None = None, **defines: object) -> KernelUnit:
        named = {name: str(value) for name, value in defines.items()}
        source = f'#include "xpu_simt.h"\n{text}'
        return KernelUnit("family.member", "kernel_under_test", source, includes or {}, named)

    return make


@pytest.fixture(scope="session")
def build(
    compiler: EmulatorCompiler, unit: Callable[..., KernelUnit], tmp_path_factory: Any
) -> Callable[..., Path]:
    """Compile a kernel's text for a target and return the file; each once."""
    directory = tmp_path_factory.mktemp("kernels")

    def make(text: str, target: str, **defines: object) -> Path:
        key = hashlib.sha256(repr((text, target, sorted(defines.items()))).encode()).hexdigest()
        path: Path = directory / f"{key[:16]}.so"
        if not path.exists():
            (code,) = compiler.compile([unit(text, **defines)], target, deadline_s=60)
            assert isinstance(code, CompiledCode), code
            path.write_bytes(code.code)
        return path

    return make


@pytest.fixture
def load(build: Callable[..., Path]) -> Callable[..., tuple[EmulatorDevice, EmulatorKernel]]:
    def make(text: str, wave: int = 32, suffix: str = "", **defines: object) -> Any:
        device = EmulatorBackend(wave).open()
        assert isinstance(device, EmulatorDevice)
        return device, device.load(
            build(text, f"wave{wave}{suffix}", **defines), "kernel_under_test"
        )

    return make


@pytest.fixture
def run(load: Callable[..., Any]) -> Callable[..., None]:
    """Run a kernel once. Its threads are XPU_THREADS of `defines`, else 64."""

    def go(
        text: str,
        arrays: Sequence[Array | DeviceArray],
        sizes: Sequence[int] = (),
        *,
        wave: int = 32,
        grid: tuple[int, int, int] = (1, 1, 1),
        dynamic: int = 0,
        suffix: str = "",
        **defines: object,
    ) -> None:
        device, kernel = load(text, wave, suffix, **{"XPU_THREADS": 64, **defines})
        taken = [device.import_array(array, writable=False) for array in arrays]
        device.launcher(kernel, Launch(grid, None, dynamic), taken, sizes)()

    return go


@pytest.fixture
def fault(run: Callable[..., None]) -> Callable[..., str]:
    """Run a kernel that must fail and return the message."""

    def go(*given: Any, **more: Any) -> str:
        with pytest.raises(XpuLaunchException) as error:
            run(*given, **more)
        return str(error.value)

    return go


@pytest.fixture
def refused(compiler: EmulatorCompiler, unit: Callable[..., KernelUnit]) -> Callable[..., str]:
    """Compile a kernel that must be refused and return the message."""

    def go(text: str, target: str = "wave32", **more: Any) -> str:
        (result,) = compiler.compile([unit(text, **more)], target, deadline_s=60)
        assert isinstance(result, XpuBuildError), "it should not have compiled"
        return str(result)

    return go
