"""What the tests in the process with the stub stand on: the stub itself, a device, two kernels."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xpu.spec import CompiledCode, KernelUnit


class Stub:
    """The runtime's own functions for tests."""

    ALLOCATIONS, STREAMS, EVENTS, GRAPHS, EXECUTABLES, MODULES = range(6)

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.stub_told.restype = ctypes.c_char_p
        self._library.stub_event_rate.argtypes = (ctypes.c_double,)

    def calls(self) -> list[str]:
        """Return what was called since `forget`, with arguments."""
        return str(self._library.stub_told().decode()).splitlines()

    def names(self) -> list[str]:
        return [call.split()[0] for call in self.calls()]

    def forget(self) -> None:
        self._library.stub_forget()

    def fail(self, name: str, code: int, times: int = 1) -> None:
        self._library.stub_fail(name.encode(), code, times)

    def lose(self, code: int, device: int = 0) -> None:
        self._library.stub_lose(device, code)

    def live(self) -> list[int]:
        return [self._library.stub_live(kind) for kind in range(6)]

    def event_rate(self, rate: float) -> None:
        self._library.stub_event_rate(rate)

    @property
    def thread(self) -> tuple[int, int]:
        """This thread's device and mode of capturing."""
        return self._library.stub_thread_device(), self._library.stub_thread_mode()


@pytest.fixture(scope="session")
def machine() -> Path:
    import hip_stub  # only such a process finds it

    return Path(os.environ[hip_stub.DIRECTORY_VARIABLE])


@pytest.fixture
def stub(machine: Path) -> Iterator[Stub]:
    made = Stub(machine / "lib" / "libamdhip64.so")
    yield made
    made.lose(0)
    made.event_rate(1.0)


@pytest.fixture
def opened(stub: Stub) -> Iterator[Any]:
    from xpu_backend_hip.device import HipDevice

    device = HipDevice(0)
    yield device
    device.close()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a kernel's text for the device, once, and return the file with its code."""
    import hip_stub

    compiler = hip_stub.StubbedHip().compiler()
    target = compiler.native_target()
    directory = tmp_path_factory.mktemp("code")
    made: dict[str, Path] = {}

    def build(text: str) -> Path:
        if text not in made:
            source = f'#include "xpu_simt.h"\n{text}'
            unit = KernelUnit("kernel", "kernel_under_test", source, {}, {"XPU_THREADS": "32"})
            (code,) = compiler.compile([unit], target, deadline_s=60)
            assert isinstance(code, CompiledCode), code
            made[text] = directory / f"{len(made)}.co"
            made[text].write_bytes(code.code)
        return made[text]

    return build


@pytest.fixture
def add(opened: Any, built: Callable[[str], Path]) -> Any:
    """Return the kernel ``y += a`` on the open device."""
    import hip_stub

    return opened.load(built(hip_stub.ADD), "kernel_under_test")
