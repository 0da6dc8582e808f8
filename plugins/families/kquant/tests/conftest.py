"""A host for the kernels that needs no backend: compile with the system's compiler, call by ctypes.

All workers of a phase are called one after another on one thread, which the dialect allows.
Every buffer ends at a page that may not be touched.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xpu.spec import KernelSource, host_dtype
from xpu.testing.surroundings import session_directory
from xpu_family_kquant import reference
from xpu_family_kquant.design import BlocksToGroups, QGemmTile, QMatVec
from xpu_family_kquant.elements import element_of

# The dialect's prelude as its specification gives it; a backend supplies its own.
PRELUDE = """
#include <stdint.h>
#include <stddef.h>
typedef struct xpu_team {
    int32_t worker, workers, phase, reserved;
    int64_t *next;
    void *scratch;
} xpu_team;
static inline int64_t xpu_take(const xpu_team *t, int64_t count)
{ return __atomic_fetch_add(t->next, count, __ATOMIC_RELAXED); }
#define XPU_PASTE2(a, b) a##b
#define XPU_PASTE(a, b) XPU_PASTE2(a, b)
#define XPU_SYMBOL(suffix) XPU_PASTE(XPU_ENTRY, suffix)
#define XPU_EXPORT __attribute__((visibility("default")))
#define XPU_PHASES(count) XPU_EXPORT const int32_t XPU_SYMBOL(_phases) = (count)
#define XPU_SCRATCH XPU_EXPORT int64_t XPU_SYMBOL(_scratch)(const int64_t *sizes, int32_t workers)
#define XPU_KERNEL \\
    XPU_EXPORT void XPU_ENTRY(const xpu_team *team, void *const *buffers, const int64_t *sizes)
"""


class Team(ctypes.Structure):
    _fields_ = [
        ("worker", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("phase", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("next", ctypes.POINTER(ctypes.c_int64)),
        ("scratch", ctypes.c_void_p),
    ]


class Guarded:
    """`size` bytes, poisoned, whose end is as close to a forbidden page as `align` allows."""

    def __init__(self, size: int, align: int) -> None:
        page = mmap.PAGESIZE
        room = -(-max(size, 1) // page) * page
        self._map = mmap.mmap(-1, room + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(start + room), ctypes.c_size_t(page), 0) == 0
        at = (room - size) // align * align
        self.address = start + at
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8, size, at)
        self.bytes[:] = 0xA5


class Kernel:
    """A loaded kernel, called with addresses and sizes."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._entry = self._library.kernel
        self._entry.restype = None
        has_phases = hasattr(self._library, "kernel_phases")
        self.phases = (
            ctypes.c_int32.in_dll(self._library, "kernel_phases").value if has_phases else 1
        )

    def scratch_bytes(self, sizes: Sequence[int], workers: int) -> int:
        if not hasattr(self._library, "kernel_scratch"):
            return 0
        self._library.kernel_scratch.restype = ctypes.c_int64
        numbers = (ctypes.c_int64 * len(sizes))(*sizes)
        return int(self._library.kernel_scratch(numbers, ctypes.c_int32(workers)))

    def __call__(self, buffers: Sequence[int], sizes: Sequence[int], workers: int) -> None:
        scratch = Guarded(self.scratch_bytes(sizes, workers), 64)
        numbers = (ctypes.c_int64 * len(sizes))(*sizes)
        addresses = (ctypes.c_void_p * len(buffers))(*buffers)
        for phase in range(self.phases):
            taken = ctypes.c_int64(0)
            for worker in reversed(range(workers)):
                team = Team(worker, workers, phase, 0, ctypes.pointer(taken), scratch.address)
                self._entry(ctypes.byref(team), addresses, numbers)


Compile = Callable[..., Kernel]


def _tiles_are_permitted() -> bool:
    """Ask Linux for AMX tile memory, as a backend does. Source: Linux, ARCH_REQ_XCOMP_PERM."""
    if platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled kernels are kept for the session, by what they came from."""
    folder = session_directory(pytestconfig, tmp_path_factory) / "kquant-kernels"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def compiled(kept: Path) -> Compile:
    """Compile a kernel for this machine, or for what `flags` say; each once, whoever asks."""
    command = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "clang"
    refused = () if _tiles_are_permitted() else NO_TILES

    def compile_(
        source: KernelSource,
        weight_format: str,
        parameters: Mapping[str, int] | None = None,
        flags: Sequence[str] = ("-march=native",),
        types: Mapping[str, str] | None = None,
    ) -> Kernel:
        defines = [f"-DXPU_{name.upper()}={value}" for name, value in (parameters or {}).items()]
        defines += [f"-DXPU_{name}_{value}=1".upper() for name, value in (types or {}).items()]
        defines += ["-DXPU_ENTRY=kernel", f"-DXPU_FORMAT_{weight_format.upper()}=1"]
        # Whether it is right is what is asked of another instruction set: at -O3 that takes longer.
        is_native = "-march=native" in flags
        arguments = ["-O3" if is_native else "-O2", "-std=gnu11", "-fPIC", "-shared"]
        arguments += ["-Wall", "-Wextra", "-Werror"]
        arguments += [*flags, *(refused if is_native else ()), *defines]
        key = hashlib.sha256(repr((source.text, arguments)).encode()).hexdigest()[:16]
        library = kept / f"{key}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=kept) as place:
                files = {**source.includes, "kernel.c": source.text, "xpu_c.h": PRELUDE}
                for name, text in files.items():
                    Path(place, name).write_text(text, "utf-8")
                subprocess.run(
                    [command, *arguments, "kernel.c", "-o", "kernel.so"], cwd=place, check=True
                )
                Path(place, "kernel.so").replace(library)
        return Kernel(library)

    return compile_


NO_TILES = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")


class Product:
    """Prepares weights and multiplies: one kernel, one format, ready for any problem."""

    def __init__(
        self, compiled: Compile, kernel: Kernel, weight_format: str, types: Mapping[str, str]
    ) -> None:
        self._prepare = compiled(BlocksToGroups().source("c"), weight_format)
        self._kernel = kernel
        self._format = weight_format
        self._of_y = element_of(types, "y")

    def __call__(
        self, rows: NDArray[np.uint8], x: NDArray[Any], workers: int = 3
    ) -> NDArray[np.float32]:
        preparation, constants = BlocksToGroups(), {"format": self._format}
        raw = Guarded(rows.nbytes, 1)
        raw.bytes[:] = rows.reshape(-1)
        prepared = Guarded(preparation.prepared_bytes(rows.shape, constants), 64)
        sizes = preparation.sizes(rows.shape, constants)
        self._prepare([raw.address, prepared.address], sizes, workers)
        dtype = host_dtype(self._of_y.name)
        size = dtype.itemsize
        given, y = Guarded(x.nbytes, x.itemsize), Guarded(len(x) * len(rows) * size, size)
        given.bytes[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        self._kernel(
            [prepared.address, given.address, y.address], [len(x), len(rows), x.shape[1]], workers
        )
        return self._of_y.widened(y.bytes.view(dtype).reshape(len(x), len(rows)).copy())


@pytest.fixture(scope="session")
def product(compiled: Compile) -> Callable[..., Product]:
    """Make a `Product` of a design, a format, a member's parameters and compiler flags."""

    def make(
        design: str,
        weight_format: str,
        parameters: Mapping[str, int],
        flags: Sequence[str] = ("-march=native",),
        **types: str,
    ) -> Product:
        source = {"qgemm_tile": QGemmTile(), "qmatvec": QMatVec()}[design].source("c")
        kernel = compiled(source, weight_format, parameters, flags, types)
        return Product(compiled, kernel, weight_format, types)

    return make


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(scope="session")
def assert_close() -> Callable[..., None]:
    """Hold y to the limits; few results may be worse in the mean, never in the largest."""

    def check(
        weight_format: str,
        rows: NDArray[np.uint8],
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        *,
        is_exact: bool = False,
    ) -> None:
        errors = reference.errors(weight_format, rows, x, y)
        chance = 1.0 if x.size >= 4096 and errors.size >= 64 else 2.0
        rms = float(np.sqrt(np.mean(errors**2)))
        assert rms <= (1e-4 if is_exact else reference.ERROR_RMS * chance)
        assert errors.max() <= (1e-4 if is_exact else reference.ERROR_MAX)

    return check
