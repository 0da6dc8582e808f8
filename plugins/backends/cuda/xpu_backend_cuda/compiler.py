"""The compiler half: `simt` text in, a CUBIN out. It needs no device.

Each unit is a program of its own and is compiled by a process of its own, several at once:
``docs/decisions/0009-a-process-for-each-nvrtc-program.md`` says why.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final

from xpu.errors import XpuBuildError, XpuError
from xpu.model import nearest
from xpu.spec import CompiledCode, Compiler, KernelUnit, buffer_accesses, in_tiers, simt_prelude
from xpu_backend_cuda.cubin import kernel_facts
from xpu_backend_cuda.disassembly import disassembly
from xpu_backend_cuda.nvrtc import Job
from xpu_backend_cuda.ptx import buffer_modes, native_operations
from xpu_backend_cuda.tiles import matrix_shapes
from xpu_backend_cuda.toolchain import Finished, Toolchain

_RUNTIME: Final = Path(__file__).parent / "runtime"
_KERNEL: Final = "kernel.cpp"
_WAVE: Final = 32
_LOGGER: Final = logging.getLogger("xpu")
_ERROR_LINES: Final = 4
_ERROR: Final = re.compile(r"\b(error|fatal)\b")
_POINTER: Final = re.compile(r"\s*\^\s*")
_IN_TURN: Final = re.compile(
    r"\bwgmma\.mma_async instructions are serialized due to (.*?)(?: in the function.*)?$", re.M
)
_FLAGS: Final = (
    *("--std=c++17", "-default-device", "--fmad=true"),
    *("-no-source-include",),  # a kernel includes what it is given, and no file of this machine
    *("-Xptxas", "-v"),  # the only place where spills are said
    "--no-cache",  # code from NVRTC's own cache comes without that report
)
_MOST_PROCESSES: Final = 16
"""Compilers at once: in a container more processors may be seen than may be used."""


class CudaCompiler(Compiler):
    """Compiles units with NVRTC, several at once."""

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain

    @property
    def identity(self) -> str:
        """Name and version of the compiler."""
        return self._toolchain.identity

    def native_target(self) -> str:
        """Name the target of device 0, with the instructions of its own where NVRTC has them.

        Raises
        ------
        XpuBuildError
            There is none.
        """
        return self._native_target

    @functools.cached_property
    def _native_target(self) -> str:
        from xpu_backend_cuda.driver import availability

        state = availability()
        reason = state.reason
        if state.is_available:
            from xpu_backend_cuda.facts import target_of

            try:
                name = target_of(0)
                own = f"{name}a"
                return own if own in self._toolchain.targets else name
            except XpuError as error:
                reason = str(error)
        raise XpuBuildError(
            f"there is no CUDA device to compile for: {reason}; name a target, for instance "
            "--target sm_90"
        )

    def knows(self, target: str) -> bool:
        """Whether NVRTC makes code for a target."""
        return target in self._toolchain.targets

    def targets(self) -> Collection[str]:
        """Name what NVRTC makes code for."""
        return self._toolchain.targets

    def fingerprint(self, target: str) -> str:
        """Return the flags, a hash of the prelude, and the library's size.

        The size tells releases apart that mend the compiler and keep its version.
        """
        headers = _headers()
        parts = "\0".join(f"{name}\0{headers[name]}" for name in sorted(headers))
        prelude = hashlib.sha256(parts.encode()).hexdigest()[:16]
        return f"{' '.join(_FLAGS)}; prelude {prelude}; {self._toolchain.library_bytes}"

    def matrix_shapes(self, target: str) -> tuple[str, ...]:
        """Name the cooperative matrices that a target has instructions for."""
        return matrix_shapes(target)

    def disassembly(self, code: Path, entry: str) -> str:
        """Return the instructions of a CUBIN, as `nvdisasm` writes them.

        Raises
        ------
        XpuBuildError
            It is not installed, or refuses the file.
        """
        return disassembly(code)

    def compile(
        self, units: Sequence[KernelUnit], target: str, *, deadline_s: float
    ) -> Sequence[CompiledCode | XpuBuildError]:
        """Compile units, each within `deadline_s` seconds; a failure stands in its place."""
        one = functools.partial(self._compile, target, deadline_s)
        with ThreadPoolExecutor(
            max_workers=min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))
        ) as pool:
            try:
                return list(pool.map(one, units))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _compile(
        self, target: str, deadline_s: float, unit: KernelUnit
    ) -> CompiledCode | XpuBuildError:
        if target not in self._toolchain.targets:
            return XpuBuildError(f"{unit.kernel}: {self._no_target(target)}")
        try:
            end = time.monotonic() + deadline_s
            done, matrices = in_tiers(
                unit,
                self.matrix_shapes(target),
                lambda each: self._done(each, target, max(end - time.monotonic(), 0.0)),
                lambda done: done.code,
            )
            facts = kernel_facts(done.code, done.log, unit.entry)
            if facts.registers is None:
                raise XpuBuildError(
                    f"{self.identity} gave code and no report of it, so its registers and spills "
                    "are not known; install another release of NVRTC"
                )
            for why in dict.fromkeys(_IN_TURN.findall(done.log)):
                _LOGGER.warning(
                    "%s, target %s: each product of a warpgroup waits for the one before, due to "
                    "%s; leave sums as they are until multiply_end, and name operands by constants",
                    *(unit.kernel, target, why),
                )
            modes = buffer_modes(done.ptx, unit.entry, len(unit.arguments))
            buffers = buffer_accesses(unit.arguments, modes)
        except XpuBuildError as error:
            return type(error)(f"{unit.kernel}, target {target}: {error}")
        except OSError as error:
            return XpuBuildError(f"{unit.kernel}, target {target}: {error}")
        except (struct.error, ValueError, LookupError) as error:
            what = f"{self.identity} gave something that is no code object: {error!r}"
            return XpuBuildError(f"{unit.kernel}, target {target}: {what}")
        operations = (*matrices, *native_operations(done.ptx))
        return CompiledCode(done.code, facts, buffers, operations, listing=done.ptx)

    def _done(self, unit: KernelUnit, target: str, deadline_s: float) -> Finished:
        done = self._toolchain.run(self._job(unit, target, deadline_s))
        if done.word:
            raise XpuBuildError(
                f"{self.identity} failed: {_first_error(done)}; mend the source, or leave "
                "the member out"
            )
        return done

    def _job(self, unit: KernelUnit, target: str, deadline_s: float) -> Job:
        own = {"XPU_ENTRY": unit.entry, "XPU_WAVE": str(_WAVE)}
        defines = [f"-D{name}={value}" for name, value in {**unit.defines, **own}.items()]
        fast = ("--use_fast_math",) if unit.fast_math else ()
        return Job(
            library=self._toolchain.library,
            name=_KERNEL,
            text=unit.text,
            headers=_included(unit),
            options=[f"--gpu-architecture={target}", *_FLAGS, *fast, *defines],
            deadline_s=deadline_s,
        )

    def _no_target(self, target: str) -> str:
        known = self._toolchain.targets
        return f"target {target!r} is none of {self.identity}'s; {nearest(target, known)}"


@functools.cache
def _headers() -> Mapping[str, str]:
    """Return what a kernel may include: the shared prelude, and this backend's own."""
    own = {path.name: path.read_text("utf-8") for path in sorted(_RUNTIME.glob("xpu_*.h"))}
    return {**simt_prelude(), **own}


def _included(unit: KernelUnit) -> Mapping[str, str]:
    reserved = {**_headers(), _KERNEL: unit.text}
    for name in unit.includes:
        path = PurePosixPath(name)
        if name in reserved or path.is_absolute() or ".." in path.parts or not path.parts:
            raise XpuBuildError(
                f"a file to include is called {name!r}; allowed: a relative path without '..' "
                f"that is none of {', '.join(reserved)}"
            )
    return {**_headers(), **unit.includes}


def _first_error(done: Finished) -> str:
    """Return the first lines that say what is wrong, in one line."""
    lines = [line.strip() for line in done.log.splitlines() if line.strip()]
    first = next((at for at, line in enumerate(lines) if _ERROR.search(line)), 0)
    shown = [line for line in lines[first:] if not _POINTER.fullmatch(line)]
    return " | ".join(shown[:_ERROR_LINES]) or f"it says {done.word} and nothing else"
