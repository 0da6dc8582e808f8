"""Finds NVRTC on this machine, once per process, and runs compilations under a deadline."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs

from xpu.errors import XpuBuildError, XpuDeadlineError
from xpu.spec import remembered
from xpu_backend_cuda import nvrtc
from xpu_backend_cuda.libraries import opened

FIX: Final = "pip install 'xpu-orchestrator[cuda]'"
_LEAST: Final = 80
"""Compute capability from which on there is all that the prelude uses."""
_PLACES: Final = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH")
"""Variables that say where the library is looked for."""
_FIRST_OWN_CODE: Final = 90
"""From compute capability 9.0 on a part has instructions of its own, under ``sm_90a``.
Source: PTX ISA, ``.target``."""


@attrs.frozen
class Finished:
    """A compilation that ended.

    Attributes
    ----------
    word
        What is wrong in NVRTC's word; empty when nothing is.
    log
        What the compiler says, of each kernel it made among other things.
    code
        The CUBIN.
    ptx
        What it was assembled from.
    """

    word: str
    log: str
    code: bytes
    ptx: str


@attrs.frozen
class Toolchain:
    """NVRTC: where its library lies, its size in bytes, its version, and its targets."""

    library: str
    library_bytes: int
    version: str
    targets: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Name and version, for instance ``nvrtc 13.5``."""
        return f"nvrtc {self.version}"

    def run(self, job: nvrtc.Job) -> Finished:
        """Compile in a process of its own, which is ended at the deadline.

        Raises
        ------
        XpuBuildError
            The deadline passed, or the process did not start, or ended without an answer.
        """
        if not sys.executable:
            raise XpuBuildError(
                "the process that compiles cannot be started: sys.executable is empty, as in a "
                "program that embeds Python; set it to a Python interpreter before the first build"
            )
        process = subprocess.Popen(  # noqa: S603 - this interpreter, on a file of this package
            [sys.executable, "-I", "-S", nvrtc.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                output, errors = process.communicate(json.dumps(job).encode(), job["deadline_s"])
            except BaseException as error:
                process.kill()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise XpuDeadlineError(
                    f"{self.identity} passed its deadline of {job['deadline_s']:.3g} s and was "
                    "ended; make the kernel smaller, or raise XPU_COMPILE_DEADLINE_S"
                ) from None
        head, _, made = output.partition(b"\n")
        if process.returncode != 0 or not head:
            raise XpuBuildError(self._obituary(process.returncode, errors.decode(errors="replace")))
        said = json.loads(head)
        size = said["code_bytes"]
        ptx = made[size:].decode(errors="replace")
        return Finished(said["word"], said["log"], made[:size], ptx)

    def _obituary(self, status: int, errors: str) -> str:
        if status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:
                name = f"signal {-status}"
            return f"{self.identity} was ended by {name}; make the kernel smaller, or leave it out"
        last = (errors.strip().splitlines() or ["it says nothing"])[-1]
        return f"the process of {self.identity} gave exit status {status}: {last}"


@functools.cache
def find_nvrtc() -> Toolchain:
    """Find NVRTC.

    Raises
    ------
    XpuBuildError
        It is not there, or cannot be loaded.
    """
    if importlib.util.find_spec("cuda") is None:
        return opened("nvrtc", "NVRTC", FIX, _toolchain)  # which says what to install
    # To load it takes as long as to look up a hundred kernels.
    said = json.loads(remembered(_question(), _answer))
    return Toolchain(said["library"], said["bytes"], said["version"], tuple(said["targets"]))


def _toolchain(path: str) -> Toolchain:
    found = nvrtc.Nvrtc(path)
    size = Path(path).stat().st_size
    return Toolchain(str(path), size, found.version(), targets_of(found.architectures()))


def _question() -> str:
    places = {name: os.environ.get(name) for name in _PLACES}
    return f"NVRTC of {sys.prefix}, {_packages()}, {places}"


def _packages() -> list[str]:
    """Return the directories in which packages are installed, this library's among them."""
    return [each for each in sys.path if each.endswith("-packages")]


def _answer() -> tuple[str, list[str]]:
    found = opened("nvrtc", "NVRTC", FIX, _toolchain)
    answer = {
        "library": found.library,
        "bytes": found.library_bytes,
        "version": found.version,
        "targets": found.targets,
    }
    # A package that is installed or removed changes the directory that holds it.
    return json.dumps(answer), [found.library, *_packages()]


def targets_of(numbers: tuple[int, ...]) -> tuple[str, ...]:
    """Return the targets of compute capabilities, 90 for 9.0, arch-specific ones after theirs."""
    return tuple(
        f"sm_{number}{suffix}"
        for number in numbers
        if number >= _LEAST
        for suffix in (("", "a") if number >= _FIRST_OWN_CODE else ("",))
    )


def runnable(major: int, minor: int) -> tuple[str, ...]:
    """Return the targets whose code a compute capability runs, the best first.

    It runs code for lower minor numbers of its own major one, and arch-specific code for
    exactly itself.
    """
    numbers = tuple(major * 10 + lower for lower in range(minor + 1))
    named = targets_of(numbers)[::-1]
    return tuple(name for name in named if name[-1:] != "a" or name == f"sm_{major}{minor}a")
