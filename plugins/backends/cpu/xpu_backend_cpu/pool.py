"""Builds, verifies and loads the C library that holds the worker pool.

A program that was given the library built, in a bundle, builds none.

The library is compiled once, with the compiler that also compiles kernels, and kept under
a name that holds what it was made from and the hash of its bytes: a file that is not
whole never has the right name, so it is never loaded.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from xpu.errors import XpuBuildError, XpuLaunchException
from xpu.spec import build_cache_directory
from xpu_backend_cpu import amx
from xpu_backend_cpu.process import Processes
from xpu_backend_cpu.toolchain import FIX, Toolchain

_SOURCES: Final = Path(__file__).parent / "runtime"
_FLAGS: Final = ("-O2", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_DEADLINE_S: Final = 120.0
POOL: Final = "pool.so"
"""Name of the library where it is carried to other machines."""
SPIN_NS: Final = 200_000
"""How long a worker stays awake for the next launch.

Source: measured on a virtual machine of two processors, where waking a sleeping thread
costs the caller 10 to 55 us: launches 100 us apart of a kernel of 18 us then cost 28 us
with workers that sleep, and 14 us with workers that still spin.
"""


@attrs.frozen
class Pool:
    """The loaded library.

    Attributes
    ----------
    launch
        Takes a reference to a plan (see `device`); gives 0, or 1 when scratch memory cannot
        be had. It declares no argument types: a plan is always passed as ``byref``, which
        ctypes takes as it is, 50 ns sooner than a declared pointer.
    threads
        Gives the number of threads that were started in this process.
    nothing
        Address of a kernel that does nothing.
    """

    launch: Callable[[object], int]
    threads: Callable[[], int]
    nothing: int


@functools.cache
def load_pool(toolchain: Toolchain) -> Pool:
    """Load the pool into this process, once; build it first where that is needed.

    Raises
    ------
    XpuBuildError
        The compiler cannot build it.
    """
    amx.is_permitted()  # before any thread is made: threads inherit the answer
    directory = build_cache_directory() / "cpu-runtime"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        library = _open(_built(toolchain, directory))
    except (OSError, XpuBuildError):
        # The cache cannot be written, or is full: the library serves this process alone.
        with tempfile.TemporaryDirectory(prefix="xpu-cpu-") as own:
            library = _open(_built(toolchain, Path(own)))
    return _pool(library)


@functools.cache
def open_pool(path: Path) -> Pool:
    """Load a pool that is built already, once.

    Raises
    ------
    XpuLaunchException
        It cannot be loaded here.
    """
    amx.is_permitted()  # before any thread is made: threads inherit the answer
    try:
        return _pool(_open(path))
    except (OSError, AttributeError) as error:
        raise XpuLaunchException(
            f"the worker pool {path} cannot be loaded: {error}; build it on a machine of this kind"
        ) from error


def pool_bytes(toolchain: Toolchain) -> bytes:
    """Return the library, built for any machine of this one's architecture.

    Raises
    ------
    XpuBuildError
        The compiler cannot build it.
    """
    with tempfile.TemporaryDirectory(prefix="xpu-cpu-") as own:
        return _built(toolchain, Path(own)).read_bytes()


def _pool(library: ctypes.CDLL) -> Pool:
    library.xpu_cpu_spin_ns.argtypes = [ctypes.c_int64]
    library.xpu_cpu_spin_ns(SPIN_NS)
    nothing = ctypes.cast(library.xpu_cpu_nothing, ctypes.c_void_p).value
    assert nothing is not None
    return Pool(library.xpu_cpu_launch, library.xpu_cpu_threads, nothing)


def _open(path: Path) -> ctypes.CDLL:
    # CDLL, not PyDLL: a launch gives the interpreter lock back while it runs.
    return ctypes.CDLL(str(path))


def _built(toolchain: Toolchain, directory: Path) -> Path:
    texts = [(_SOURCES / name).read_bytes() for name in ("pool.c", "xpu_c.h")]
    made_from = hashlib.sha256(
        b"\0".join([*texts, repr((toolchain.identity, _FLAGS, platform.machine())).encode()])
    ).hexdigest()[:16]
    for found in directory.glob(f"pool-{made_from}-*.so"):
        if found.name == _name(made_from, found.read_bytes()):
            return found
    with tempfile.TemporaryDirectory(prefix=".build-", dir=directory) as work:
        made = Path(work) / "pool.so"
        source = str(_SOURCES / "pool.c")
        command = [*toolchain.command, *_FLAGS, source, "-o", str(made)]
        answer = Processes().run(command, deadline_s=_DEADLINE_S, directory=Path(work))
        if answer.status != 0:
            lines = answer.errors.strip().splitlines()[:3] or ["it passed its deadline"]
            raise XpuBuildError(
                f"{toolchain.identity} ({' '.join(toolchain.command)}) cannot build the worker "
                f"pool: {' | '.join(lines)}; mend the compiler, or {FIX}"
            )
        target = directory / _name(made_from, made.read_bytes())
        made.replace(target)
    return target


def _name(made_from: str, content: bytes) -> str:
    return f"pool-{made_from}-{hashlib.sha256(content).hexdigest()[:32]}.so"
