"""A machine with one AMD GPU, as far as a runtime over host memory can stand for one.

`install` compiles the runtime and writes down what its device is; a process that is started with
`environment` finds it as it would find ROCm's. What such a process runs is the device half as it
is; `StubbedHip` adds to the compiler half that each code object gets a twin: the same source,
compiled for the host by the emulator's backend, which the runtime runs when the code object is
launched.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpu.errors import XpuBuildError
from xpu.spec import CompiledCode, Compiler, KernelUnit
from xpu_backend_emulator.compiler import EmulatorCompiler
from xpu_backend_emulator.toolchain import find_toolchain as find_host_toolchain
from xpu_backend_hip.backend import HipBackend
from xpu_backend_hip.compiler import HipCompiler
from xpu_backend_hip.driver import bindings
from xpu_backend_hip.targets import wave_width
from xpu_backend_hip.toolchain import find_toolchain

HERE = Path(__file__).parent
DIRECTORY_VARIABLE = "HIP_STUB_DIRECTORY"
MEMORY_BYTES = 256 << 20
VERSION, COUNT, HAS_NO_UUID, MEMORY, MACHINE = -1, -2, -3, -4, -5
MACHINES = {"gfx90a": 0x3F, "gfx1151": 0x4A}
"""What the ELF header says of a target. Source: LLVM, User Guide for AMDGPU Backend, e_flags."""
# As hipinfo shows them of a Radeon 8060S, and of an Instinct MI210; see devices.toml.
REPORTS: Mapping[str, Mapping[str, int]] = {
    "gfx1151": {
        "MultiprocessorCount": 20,
        "WarpSize": 32,
        "MaxThreadsPerBlock": 1024,
        "MaxThreadsPerMultiProcessor": 2048,
        "MaxRegistersPerMultiprocessor": 196608,
        "MaxRegistersPerBlock": 196608,
        "MaxSharedMemoryPerBlock": 65536,
        "MaxSharedMemoryPerMultiprocessor": 65536,
        "L2CacheSize": 2097152,
    },
    "gfx90a": {
        "MultiprocessorCount": 104,
        "WarpSize": 64,
        "MaxThreadsPerBlock": 1024,
        "MaxThreadsPerMultiProcessor": 2048,
        "MaxRegistersPerMultiprocessor": 65536,
        "MaxRegistersPerBlock": 65536,
        "MaxSharedMemoryPerBlock": 65536,
        "MaxSharedMemoryPerMultiprocessor": 65536 * 104,
        "L2CacheSize": 8388608,
    },
}
SIDES = {
    **{f"MaxBlockDim{axis}": 1024 for axis in "XYZ"},
    "MaxGridDimX": 2**31 - 1,
    "MaxGridDimY": 65535,
    "MaxGridDimZ": 65535,
}

ADD = """
XPU_KERNEL(xpu::global<const float> a, xpu::global<float> y, int64_t n)
{
    const int64_t i = xpu::block_x() * 32 + xpu::thread();
    if (i < n && xpu::block_x() < xpu::grid_x()) y[i] = y[i] + a[i];
}
"""
OUTSIDE = ADD.replace("if (i < n && xpu::block_x() < xpu::grid_x())", "").replace(
    "y[i] = y[i]", "y[i + n] = y[i]"
)


def install(directory: Path, architecture: str = "gfx1151") -> Path:
    """Compile the runtime and describe its device; return the library.

    Raises
    ------
    LookupError
        There is no C compiler.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise LookupError("no C compiler (cc, gcc or clang) is on PATH")
    library = directory / "lib" / "libamdhip64.so"
    library.parent.mkdir(parents=True)
    (directory / "kernels").mkdir()
    sources = sorted(map(str, HERE.glob("*.c")))
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-shared", "-fPIC")
    command = (compiler, *flags, "-o", str(library), *sources, "-lpthread", "-ldl")
    subprocess.run(command, check=True)
    describe(directory, architecture)
    return library


def describe(
    directory: Path, architecture: str = "gfx1151", own: Mapping[int, int] | None = None
) -> None:
    """Write down what the devices are.

    `own` has a value by the number of an attribute, or by VERSION, COUNT and the like.
    """
    kinds = bindings().hipDeviceAttribute_t
    said = {**SIDES, **REPORTS[architecture]}
    figures = {int(kinds[f"hipDeviceAttribute{name}"]): value for name, value in said.items()}
    figures |= {MACHINE: MACHINES[architecture], MEMORY: MEMORY_BYTES, **(own or {})}
    lines = [f"{number} {value}" for number, value in figures.items()]
    (directory / "figures").write_text("\n".join(lines) + "\n")
    suffix = ":sramecc+:xnack-" if architecture == "gfx90a" else ""
    (directory / "properties").write_bytes(properties("Stub", f"{architecture}{suffix}"))


def properties(name: str, architecture: str) -> bytes:
    """Lay out a device's properties as hip-python reads them.

    Where a text lies is found out by what it reads of memory in which no two places are alike.
    """
    made = bindings().hipDeviceProp_t()
    size = made.c_sizeof() if hasattr(made, "c_sizeof") else 1472
    memory = (ctypes.c_char * size).from_address(int(made))
    pattern = b"".join(b"%04x" % at for at in range(size // 4))
    memory[:] = pattern.ljust(size, b".")
    places = {}
    for text in ("name", "gcnArchName"):
        read = getattr(made, text)  # text in some releases, bytes in others
        start = read[:16].encode() if isinstance(read, str) else read[:16]
        places[text] = bytes(memory).index(start)
    laid = bytearray(size)
    for field, text in (("name", name), ("gcnArchName", architecture)):
        laid[places[field] : places[field] + len(text)] = text.encode()
    return bytes(laid)


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a process that is to find the runtime."""
    paths = (str(HERE), os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        DIRECTORY_VARIABLE: str(directory),
        "ROCM_PATH": str(directory),  # hip-python 10
        "LD_LIBRARY_PATH": str(directory / "lib"),  # releases before it
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def fnv(code: bytes) -> int:
    """Return the hash by which the runtime looks for a twin (FNV-1a)."""
    found = 0xCBF29CE484222325
    for byte in code:
        found = (found ^ byte) * 0x100000001B3 & (2**64 - 1)
    return found


class TwinCompiler(HipCompiler):
    """The compiler half, and beside each code object its twin for the host."""

    def __init__(self, directory: Path) -> None:
        super().__init__(find_toolchain())
        self._directory = directory

    def fingerprint(self, target: str) -> str:
        # A build of another directory has its twins there.
        return f"{super().fingerprint(target)}; twins in {self._directory}"

    def compile(
        self, units: Sequence[KernelUnit], target: str, *, deadline_s: float
    ) -> Sequence[CompiledCode | XpuBuildError]:
        made = super().compile(units, target, deadline_s=deadline_s)
        pairs = [
            (unit, code)
            for unit, code in zip(units, made, strict=True)
            if isinstance(code, CompiledCode)
        ]
        width = wave_width(target)
        host = EmulatorCompiler(find_host_toolchain(), width)
        twins = host.compile([unit for unit, _ in pairs], f"wave{width}", deadline_s=deadline_s)
        for (_, code), twin in zip(pairs, twins, strict=True):
            if isinstance(twin, XpuBuildError):
                raise twin
            self._keep(code.code, twin.code)
        return made

    def _keep(self, code: bytes, twin: bytes) -> None:
        with tempfile.NamedTemporaryFile(dir=self._directory / "kernels", delete=False) as file:
            file.write(twin)
        Path(file.name).rename(self._directory / "kernels" / f"{fnv(code):016x}.so")


class StubbedHip(HipBackend):
    """The backend, with a compiler half that makes twins; the device half is as it is."""

    def compiler(self) -> Compiler:
        return TwinCompiler(Path(os.environ[DIRECTORY_VARIABLE]))
