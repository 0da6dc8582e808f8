"""The compiler half: `simt` text in, an AMDGPU code object out. It needs no device and no ROCm.

A unit is compiled by a process of its own, several at once, in a temporary directory under fixed
names, so that the same input gives the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import signal
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final

from xpu.errors import XpuBuildError, XpuDeadlineError, XpuError
from xpu.model import nearest
from xpu.spec import CompiledCode, Compiler, KernelUnit, buffer_accesses, in_tiers, simt_prelude
from xpu_backend_hip.disassembly import disassembly
from xpu_backend_hip.generated import (
    buffer_modes,
    called_spill_bytes,
    kept_forms,
    native_operations,
)
from xpu_backend_hip.matrices import matrix_shapes, matrix_unit
from xpu_backend_hip.process import Finished, run
from xpu_backend_hip.targets import generation, is_generic, wave_width
from xpu_backend_hip.toolchain import Toolchain

_RUNTIME: Final = Path(__file__).parent / "runtime"
_KERNEL: Final = "kernel.cpp"
_ASSEMBLY: Final = "kernel.s"
_CODE: Final = "kernel.co"
_IR: Final = "ir"
"""A directory: the compiler's form of the kernel behind its last pass, in a file."""
_ERROR_LINES: Final = 4
_ERROR: Final = re.compile(r"\b(error|fatal)\b")
_NOISE: Final = re.compile(r"\s*\^[\s~^]*|>>>.*|\s*~+\s*")
_FLAGS: Final = (
    *("--no-default-config", "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"),
    *("-nogpulib", "-nogpuinc", "-nostdinc", "-nostdinc++", "-I."),  # no file of the machine
    *("-std=c++17", "-O3", "-ffp-contract=fast", "-fno-exceptions", "-fno-rtti", "-Werror=vla"),
    # It makes one load of several words of an operand, and keeps an array in memory for that.
    *("-mllvm", "-disable-vector-combine"),
    "-fuse-cuid=none",  # else a name in the code would hang on the directory
    *("-Wno-everything", "-fno-color-diagnostics", "-fno-diagnostics-show-line-numbers"),
)
_TO_CODE: Final = ("--no-default-config", "--target=amdgcn-amd-amdhsa", "-nogpulib")
"""Assembly to a code object."""
_FAST_MATH: Final = ("-ffast-math", "-fno-finite-math-only", "-fgpu-flush-denormals-to-zero")
"""What `fast_math` allows."""

_MOST_PROCESSES: Final = 16
"""Compilers at once: in a container more processors may be seen than may be used."""


class HipCompiler(Compiler):
    """Compiles units with clang, several at once."""

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain

    @property
    def identity(self) -> str:
        """Name and version of the compiler."""
        return self._toolchain.identity

    def native_target(self) -> str:
        """Name the target of device 0, with its features: ``gfx90a:sramecc+:xnack-``.

        Raises
        ------
        XpuBuildError
            There is none.
        """
        return self._native_target

    @functools.cached_property
    def _native_target(self) -> str:
        from xpu_backend_hip.driver import availability

        state = availability()
        reason = state.reason
        if state.is_available:
            from xpu_backend_hip.facts import target_of

            try:
                return target_of(0)
            except XpuError as error:
                reason = str(error)
        raise XpuBuildError(
            f"there is no device to compile for: {reason}; name a target, for instance "
            "--target gfx1151"
        )

    def knows(self, target: str) -> bool:
        """Whether clang makes code for a target, a processor with or without features."""
        processor = target.partition(":")[0]
        return generation(target) is not None and processor in self._toolchain.targets

    def targets(self) -> Collection[str]:
        """Name processors that clang makes code for."""
        return self._toolchain.targets

    def fingerprint(self, target: str) -> str:
        """Return the flags, a hash of the prelude, and what the compiler says of itself.

        That tells compilers of one version and several makers apart.
        """
        headers = _headers()
        parts = "\0".join(f"{name}\0{headers[name]}" for name in sorted(headers))
        prelude = hashlib.sha256(parts.encode()).hexdigest()[:16]
        flags = " ".join((*_FLAGS, *_of_target(target), *_TO_CODE))
        return f"{flags}; prelude {prelude}; {self._toolchain.banner}"

    def disassembly(self, code: Path, entry: str) -> str:
        """Return the instructions of a code object, as `llvm-objdump` writes them.

        Raises
        ------
        XpuBuildError
            It is not installed, or does not know the part.
        """
        return disassembly(self._toolchain, code)

    def matrix_shapes(self, target: str) -> tuple[str, ...]:
        """Name the cooperative matrices that a target has instructions for."""
        return matrix_shapes(target)

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
        # Its readers of code objects take longer to import than a build that is cached.
        from xpu_backend_hip.code_object import kernel_facts

        if not self.knows(target):
            return XpuBuildError(f"{unit.kernel}: {self._no_target(target)}")
        try:
            with tempfile.TemporaryDirectory(prefix="xpu-hip-") as name:
                end = time.monotonic() + deadline_s
                # Each in a directory of its own, made anew: what the compiler keeps is of one.
                (code, directory), matrices = in_tiers(
                    unit,
                    self.matrix_shapes(target),
                    lambda each: self._made(
                        each,
                        target,
                        max(end - time.monotonic(), 0.0),
                        Path(tempfile.mkdtemp(dir=name)),
                    ),
                    lambda made: made[0],
                )
                listing = _listing(directory)
                called = called_spill_bytes(listing, unit.entry)
                facts = kernel_facts(code, unit.entry, wave_width(target), called)
                modes = buffer_modes(directory / _IR, unit.entry, len(unit.arguments))
            if facts.registers is None or facts.spill_bytes is None:
                raise XpuBuildError(
                    f"{self.identity} does not say the registers and spills of its code; install "
                    "another release of clang"
                )
            buffers = buffer_accesses(unit.arguments, modes)
        except XpuBuildError as error:
            return type(error)(f"{unit.kernel}, target {target}: {error}")
        except OSError as error:
            return XpuBuildError(f"{unit.kernel}, target {target}: {error}")
        operations = (*matrices, *native_operations(listing))
        return CompiledCode(code, facts, buffers, operations, listing=listing)

    def _made(
        self, unit: KernelUnit, target: str, deadline_s: float, directory: Path
    ) -> tuple[bytes, Path]:
        """Compile and link a unit in a directory; return the code object, and the directory."""
        for name, text in {**_included(unit), _KERNEL: unit.text}.items():
            place = directory / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        own = {"XPU_ENTRY": unit.entry, "XPU_WAVE": str(wave_width(target))}
        matrices = matrix_unit(target)
        if matrices is not None:
            own[matrices.macro] = str(matrices.version)
        defines = [f"-D{name}={value}" for name, value in {**unit.defines, **own}.items()]
        version = f"-mcode-object-version={_code_object_version(target)}"
        start, linker = self._toolchain.command, self._linker(directory)
        fast = _FAST_MATH if unit.fast_math else ()
        options = (*_FLAGS, *fast, *_of_target(target), *kept_forms(unit.entry, _IR), *defines)
        end = time.monotonic() + deadline_s
        # Assembly first: it names the operations, and the code is the same.
        for command in (
            (*start, *options, "-S", _KERNEL, "-o", _ASSEMBLY),
            (*start, *_TO_CODE, f"-mcpu={target}", version, *linker, _ASSEMBLY, "-o", _CODE),
        ):
            done = run(command, directory, max(end - time.monotonic(), 0.0))
            if done.status is None:
                raise XpuDeadlineError(
                    f"{self.identity} passed its deadline of {deadline_s:.3g} s and was ended; "
                    "make the kernel smaller, or raise XPU_COMPILE_DEADLINE_S"
                )
            if done.status != 0:
                raise XpuBuildError(self._failure(done.status, done))
        try:
            return (directory / _CODE).read_bytes(), directory
        except FileNotFoundError:
            raise XpuBuildError(
                f"{self.identity} says that all is well, and there is no code; install clang anew"
            ) from None

    def _linker(self, directory: Path) -> tuple[str, ...]:
        """Show the compiler the linker where it does not find one by itself.

        It looks for a program ``ld.lld``; the one meant here is called otherwise.
        """
        if not self._toolchain.linker:
            return ()
        words = shlex.join(self._toolchain.linker)
        script = directory / "bin" / "ld.lld"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
        script.chmod(0o700)
        return (f"-B{script.parent}",)

    def _failure(self, status: int, done: Finished) -> str:
        if status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:
                name = f"signal {-status}"
            return f"{self.identity} was ended by {name}; make the kernel smaller, or leave it out"
        said = _first_error(done.output) or f"exit status {status}, and it says nothing"
        return f"{self.identity} failed: {said}; mend the source, or leave the member out"

    def _no_target(self, target: str) -> str:
        known = self._toolchain.targets
        return f"target {target!r} is none of {self.identity}'s; {nearest(target, known)}"


def _listing(directory: Path) -> str:
    """Return the assembly; who gives none gives no sound code either, which its readers say."""
    assembly = directory / _ASSEMBLY
    return assembly.read_text(errors="replace") if assembly.exists() else ""


def _of_target(target: str) -> tuple[str, ...]:
    """Return what is said of a target."""
    return (f"--offload-arch={target}", f"-mcode-object-version={_code_object_version(target)}")


def _code_object_version(target: str) -> int:
    """Return the version of the format; only the newer one has targets for several parts."""
    return 6 if is_generic(target) else 5


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


def _first_error(output: str) -> str:
    """Return the first lines that say what is wrong, in one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    first = next((at for at, line in enumerate(lines) if _ERROR.search(line)), 0)
    shown = [line for line in lines[first:] if not _NOISE.fullmatch(line)]
    return " | ".join(shown[:_ERROR_LINES])
