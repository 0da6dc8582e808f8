"""The compiler half: C text in, a shared object and what is known of it out.

A unit is compiled in a temporary directory under fixed names, so that the same input
gives the same bytes. The compiler stops at assembly text, which is read for native
instructions and then assembled and linked: one compilation, no disassembler needed.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final

from xpu.errors import XpuBuildError, XpuDeadlineError
from xpu.model import BufferAccess, KernelFacts, nearest
from xpu.spec import CompiledCode, Compiler, KernelUnit
from xpu_backend_cpu.disassembly import disassembly
from xpu_backend_cpu.flags import NATIVE, PRELUDE, fingerprint, target_flags
from xpu_backend_cpu.generated import largest_frame_bytes, native_operations, spill_stores
from xpu_backend_cpu.pool import POOL, pool_bytes
from xpu_backend_cpu.process import Processes
from xpu_backend_cpu.targets import known_targets, knows, own_name
from xpu_backend_cpu.toolchain import Toolchain
from xpu_backend_cpu.vectors import vector_instructions

_ERROR_LINES: Final = 5
# What @fast_math allows. Not at the link: there it would change the arithmetic of this process.
_FAST_MATH: Final = ("-ffast-math", "-fno-finite-math-only")


class CpuCompiler(Compiler):
    """Compiles units with one compiler, as many at once as there are workers."""

    def __init__(self, toolchain: Toolchain, workers: int) -> None:
        self._toolchain = toolchain
        self._workers = workers
        self._flags = functools.cache(functools.partial(target_flags, toolchain))

    @property
    def identity(self) -> str:
        """Family and version of the compiler."""
        return self._toolchain.identity

    def native_target(self) -> str:
        """Name this machine's own instruction set."""
        return NATIVE

    def knows(self, target: str) -> bool:
        """Whether it is this machine's own instruction set, or one that ``-march`` takes."""
        return knows(self._toolchain, target)

    def targets(self) -> Collection[str]:
        """Name what ``-march`` takes."""
        return known_targets(self._toolchain)

    def carried_target(self, target: str) -> str:
        """Return the target; native code bears the name of this very processor."""
        return own_name() if target == NATIVE else target

    def runtime(self, target: str) -> Mapping[str, bytes]:
        """Return the worker pool; see `pool.pool_bytes`."""
        return {POOL: pool_bytes(self._toolchain)}

    def fingerprint(self, target: str) -> str:
        """Return the flags, the prelude's hash and, for native code, the processor's."""
        return fingerprint(self._flags(target), target)

    def disassembly(self, code: Path, entry: str) -> str:
        """Return the instructions of a shared object, as `objdump` writes them.

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
        processes = Processes()
        one = functools.partial(self._compile, processes, target, deadline_s)
        with ThreadPoolExecutor(max_workers=self._workers) as pool:
            try:
                return list(pool.map(one, units))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                processes.stop()
                raise

    def _compile(
        self, processes: Processes, target: str, deadline_s: float, unit: KernelUnit
    ) -> CompiledCode | XpuBuildError:
        try:
            flags = self._flags(target)
            with tempfile.TemporaryDirectory(prefix="xpu-cpu-") as name:
                directory = Path(name)
                _write(unit, directory)
                end = time.monotonic() + deadline_s
                for command in self._commands(unit, flags):
                    left = end - time.monotonic()
                    answer = processes.run(command, deadline_s=max(left, 0.0), directory=directory)
                    if answer.status is None:
                        return self._late(unit, deadline_s)
                    if answer.status != 0:
                        return self._failed(unit, target, answer.errors or answer.output)
                return _read(unit, directory, self._toolchain)
        except XpuBuildError as error:
            return XpuBuildError(f"{unit.kernel}: {error}")
        except OSError as error:
            return XpuBuildError(
                f"{unit.kernel}: {self.identity} could not be run in a temporary directory: {error}"
            )

    def _commands(self, unit: KernelUnit, flags: tuple[str, ...]) -> tuple[list[str], ...]:
        defines = [f"-D{name}={value}" for name, value in unit.defines.items()]
        report = ["-fstack-usage"] if self._toolchain.reports_stack else []
        macros = [f"-DXPU_ENTRY={unit.entry}", *defines]
        start = [*self._toolchain.command, *flags]
        fast = _FAST_MATH if unit.fast_math else ()
        return (
            [*start, *fast, *report, *macros, "-I.", "-S", "kernel.c", "-o", "kernel.s"],
            [*start, "-shared", "-s", "kernel.s", "-o", "kernel.so", "-lm"],
        )

    def _late(self, unit: KernelUnit, deadline_s: float) -> XpuBuildError:
        return XpuDeadlineError(
            f"{unit.kernel}: {self.identity} passed its deadline of {deadline_s:g} s and was "
            "ended; make the kernel smaller, or raise XPU_COMPILE_DEADLINE_S"
        )

    def _failed(self, unit: KernelUnit, target: str, text: str) -> XpuBuildError:
        # Asked for now that it failed: it may start the compiler. One may not list its targets.
        known = known_targets(self._toolchain)
        if known and not self.knows(target):
            told = f"target {target!r} is none of {self.identity}'s"
            return XpuBuildError(f"{unit.kernel}: {told}; {nearest(target, {NATIVE, *known})}")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        first = next((at for at, line in enumerate(lines) if "error" in line.lower()), 0)
        shown = " | ".join(lines[first : first + _ERROR_LINES]) or "it says nothing"
        return XpuBuildError(
            f"{unit.kernel}: {self.identity} failed for target {target}: {shown}; "
            "mend the source, or leave the member out"
        )


def _write(unit: KernelUnit, directory: Path) -> None:
    prelude = PRELUDE.read_text(encoding="utf-8")
    reserved = {"kernel.c": unit.text, PRELUDE.name: prelude}
    for name, text in {**reserved, **unit.includes}.items():
        path = PurePosixPath(name)
        is_taken = name in reserved and name in unit.includes
        if is_taken or path.is_absolute() or ".." in path.parts or not path.parts:
            raise XpuBuildError(
                f"a file to include is called {name!r}; allowed: a relative path without '..' "
                f"that is none of {', '.join(reserved)}"
            )
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")


def _read(unit: KernelUnit, directory: Path, toolchain: Toolchain) -> CompiledCode:
    code = (directory / "kernel.so").read_bytes()
    listing = (directory / "kernel.s").read_text(errors="replace")
    report = directory / "kernel.su"
    facts = KernelFacts(
        stack_bytes=largest_frame_bytes(report.read_text() if report.exists() else ""),
        spill_stores=spill_stores(listing) if toolchain.tells_spills else None,
        vector_instructions=vector_instructions(listing),
        code_hash=hashlib.sha256(code).hexdigest(),
    )
    return CompiledCode(
        code=code,
        facts=facts,
        buffers=tuple(BufferAccess(item.name, item.access) for item in unit.arguments),
        operations=native_operations(listing),
        listing=listing,
    )
