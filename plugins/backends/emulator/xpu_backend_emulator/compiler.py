"""The compiler half: `simt` text in, a shared object for the host out.

A kernel and the runtime that runs its threads become one object. A unit is compiled in a
temporary directory under fixed names, so that the same input gives the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final

import attrs

from xpu.errors import XpuBuildError, XpuDeadlineError
from xpu.model import BufferAccess, KernelFacts
from xpu.spec import CompiledCode, Compiler, KernelUnit, in_tiers, simt_prelude
from xpu_backend_emulator.code import Footprint, footprint
from xpu_backend_emulator.part import WIDTHS
from xpu_backend_emulator.toolchain import Toolchain, run

_RUNTIME: Final = Path(__file__).parent / "runtime"
_KERNEL: Final = "kernel.cpp"
_ERROR_LINES: Final = 6
_ERROR: Final = re.compile(r"error\b|undefined (reference|symbol)", re.IGNORECASE)
# Without fused multiplications a kernel gives the same bits on every host. -g1 is what names
# the line of a fault (binutils take the file for another one in the newer form of it); a map
# keeps the temporary directory's name out.
_COMMON: Final = (
    *("-std=c++17", "-fPIC", "-fvisibility=hidden", "-g1", "-gdwarf-4"),
    *("-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
)
# A checked kernel is compiled to be tried a few times: at -O1 that takes a third less than at -O2,
# and running it a quarter more, of a tenth of the time.
_OPTIMISED: Final = {True: "-O1", False: "-O2"}
_OF_RUNTIME: Final = ("-O2", "-c", "runtime.cpp", "-o", "runtime.o")
# gcc tracks variables for -g1 too, which keeps none of them; it is a seventh of a compilation.
_UNTRACKED: Final = {"gcc": ("-fno-var-tracking",), "clang": ()}
# The fibres' stacks have 64 KiB: a thread that needs more says so here and not by a crash.
_FRAMES: Final = {
    "gcc": ("-Werror=frame-larger-than=49152",),
    "clang": ("-Wframe-larger-than=49152", "-Werror=frame-larger-than"),
}
# What @fast_math allows. Not at the link: there it would change the arithmetic of this process.
_FAST_MATH: Final = ("-ffast-math", "-fno-finite-math-only")
# What a GPU's compiler refuses, too: an array on the stack whose size is not known.
_OF_KERNELS: Final = ("-nostdinc", "-nostdinc++", "-I.", "-Werror=vla")
# Arithmetic that no two parts do alike ends in a fault; the runtime has the handlers.
_UNDEFINED: Final = ",".join(
    ("shift-exponent", "signed-integer-overflow", "integer-divide-by-zero", "float-cast-overflow")
)
_STRICT: Final = {
    "gcc": (f"-fsanitize=bounds-strict,{_UNDEFINED}", "-fno-sanitize-recover"),
    "clang": (f"-fsanitize=array-bounds,{_UNDEFINED}", "-fno-sanitize-recover=all"),
}
# A variable that nothing set holds a pattern, so that a sum that lacks its zero is wrong here, too.
_FILLED: Final = ("-ftrivial-auto-var-init=pattern",)
_FILLS_SINCE: Final = {"gcc": 12, "clang": 8}
TARGETS: Final = {
    f"wave{width}{suffix}": (width, is_checked)
    for width in WIDTHS
    for suffix, is_checked in (("", True), ("-fast", False))
}

_RUNTIMES: Final[dict[Toolchain, bytes]] = {}
_RUNTIME_LOCK: Final = threading.Lock()


class EmulatorCompiler(Compiler):
    """Compiles units with one compiler, several at once."""

    def __init__(self, toolchain: Toolchain, wave_width: int, shapes: tuple[str, ...] = ()) -> None:
        self._toolchain = toolchain
        self._shapes = shapes
        self._wave_width = wave_width

    @property
    def identity(self) -> str:
        """Family and version of the compiler."""
        return self._toolchain.identity

    def native_target(self) -> str:
        """Name the target of the emulated part: checked code for its waves."""
        return f"wave{self._wave_width}"

    def knows(self, target: str) -> bool:
        """Whether a target is one of `TARGETS`."""
        return target in TARGETS

    def targets(self) -> Collection[str]:
        """Name `TARGETS`."""
        return TARGETS

    def carried_target(self, target: str) -> str:
        """Return the target with the host's architecture: a kernel is code for the host."""
        return carried(target)

    def fingerprint(self, target: str) -> str:
        """Return the flags, the host's architecture, and a hash of prelude and runtime."""
        texts = {**_headers(), **{path.name: path.read_text("utf-8") for path in _runtime_files()}}
        parts = "\0".join(f"{name}\0{texts[name]}" for name in sorted(texts))
        prelude = hashlib.sha256(parts.encode()).hexdigest()[:16]
        flags = " ".join((*_COMMON, *self._flags(target), *_OF_RUNTIME))
        shapes = " ".join(self.matrix_shapes(target))
        return f"{flags}; prelude {prelude}; {platform.machine()}; matrices {shapes}"

    def matrix_shapes(self, target: str) -> tuple[str, ...]:
        """Name the shapes of the emulated part's facts; it has them whatever the target."""
        return self._shapes

    def compile(
        self, units: Sequence[KernelUnit], target: str, *, deadline_s: float
    ) -> Sequence[CompiledCode | XpuBuildError]:
        """Compile units, each within `deadline_s` seconds; a failure stands in its place."""
        one = functools.partial(self._compile, target, deadline_s)
        with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
            try:
                return list(pool.map(one, units))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _compile(
        self, target: str, deadline_s: float, unit: KernelUnit
    ) -> CompiledCode | XpuBuildError:
        if target not in TARGETS:
            return XpuBuildError(
                f"{unit.kernel}: target {target!r} is none of {', '.join(TARGETS)}"
            )
        try:
            end = time.monotonic() + deadline_s
            made, matrices = in_tiers(
                unit,
                self.matrix_shapes(target),
                lambda each: self._made(each, target, end),
                lambda made: made.code,
            )
            return attrs.evolve(made, operations=matrices)
        except XpuBuildError as error:
            return type(error)(f"{unit.kernel}, target {target}: {error}")
        except OSError as error:
            return XpuBuildError(f"{unit.kernel}, target {target}: {error}")

    def _made(self, unit: KernelUnit, target: str, end: float) -> CompiledCode:
        with tempfile.TemporaryDirectory(prefix="xpu-emulator-") as name:
            directory = Path(name)
            _write(unit, directory)
            (directory / "runtime.o").write_bytes(self._runtime(max(end - time.monotonic(), 0.0)))
            self._run(directory, end, *self._kernel_options(unit, target))
            self._run(directory, end, *self._link_options())
            return _read(unit, directory)

    def _kernel_options(self, unit: KernelUnit, target: str) -> tuple[str, ...]:
        width, is_checked = TARGETS[target]
        own = {"XPU_ENTRY": unit.entry, "XPU_WAVE": width, "XPU_EMULATOR_CHECKS": int(is_checked)}
        for name in own.keys() & unit.defines.keys():
            raise XpuBuildError(
                f"a parameter or constant gives the macro {name}, which the dialect gives itself; "
                "call it otherwise"
            )
        defines = [f"-D{name}={value}" for name, value in {**unit.defines, **own}.items()]
        fast = _FAST_MATH if unit.fast_math else ()
        return (*self._flags(target), *fast, *defines, "-c", _KERNEL, "-o", "kernel.o")

    def _flags(self, target: str) -> tuple[str, ...]:
        """Return the flags with which kernels of a target are compiled, beside the common ones."""
        _, is_checked = TARGETS.get(target, (0, True))
        family, version = self._toolchain.family, self._toolchain.version
        flags = (_OPTIMISED[is_checked], *_UNTRACKED[family], *_OF_KERNELS, *_FRAMES[family])
        if is_checked:
            flags += _STRICT[family]
            if int(version.partition(".")[0]) >= _FILLS_SINCE[family]:
                flags += _FILLED
        return flags

    def _link_options(self) -> tuple[str, ...]:
        # No library of C++: a kernel that allocates finds none, and zig would build its own first.
        gcc = ("-nodefaultlibs", "-lc", "-lgcc")
        without = gcc if self._toolchain.family == "gcc" else ("-nostdlib++",)
        objects = ("kernel.o", "runtime.o", "-o", "kernel.so")
        return ("-shared", *objects, "-Wl,-z,defs", "-lm", *without)

    def _runtime(self, deadline_s: float) -> bytes:
        """Compile the runtime, once in a process: it is the same for every kernel."""
        with _RUNTIME_LOCK:
            if self._toolchain not in _RUNTIMES:
                with tempfile.TemporaryDirectory(prefix="xpu-emulator-") as name:
                    directory = Path(name)
                    for path in _runtime_files():
                        (directory / path.name).write_bytes(path.read_bytes())
                    end = time.monotonic() + deadline_s
                    self._run(directory, end, *_OF_RUNTIME)
                    _RUNTIMES[self._toolchain] = (directory / "runtime.o").read_bytes()
            return _RUNTIMES[self._toolchain]

    def _run(self, directory: Path, end: float, *options: str) -> None:
        command = (*self._toolchain.command, *_COMMON, f"-ffile-prefix-map={directory}=.", *options)
        answer = run(command, directory, max(end - time.monotonic(), 0.0))
        if answer.status is None:
            raise XpuDeadlineError(
                f"{self.identity} passed its deadline and was ended; make the kernel smaller, or "
                "raise XPU_COMPILE_DEADLINE_S"
            )
        if answer.status != 0:
            lines = [line.strip() for line in answer.output.splitlines() if line.strip()]
            first = next((at for at, line in enumerate(lines) if _ERROR.search(line)), 0)
            shown = " | ".join(lines[first : first + _ERROR_LINES]) or "it says nothing"
            raise XpuBuildError(
                f"{self.identity} failed: {shown}; mend the source, or leave the member out"
            )


def carried(target: str) -> str:
    """Return the name of a target for hosts of this kind."""
    return f"{target}-{platform.machine()}"


def _runtime_files() -> list[Path]:
    return sorted(path for path in _RUNTIME.iterdir() if path.suffix in {".h", ".cpp"})


def _headers() -> Mapping[str, str]:
    """Return what a kernel may include: the shared prelude, and this backend's own."""
    own = {path.name: path.read_text("utf-8") for path in sorted(_RUNTIME.glob("xpu_*.h"))}
    return {**simt_prelude(), **own}


def _write(unit: KernelUnit, directory: Path) -> None:
    reserved = {**_headers(), _KERNEL: unit.text}
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


def _read(unit: KernelUnit, directory: Path) -> CompiledCode:
    path = directory / "kernel.so"
    code = path.read_bytes()
    known = footprint(path, unit.entry)
    _compare(unit, known)
    return CompiledCode(
        code=code,
        facts=KernelFacts(
            static_shared_bytes=known.static_shared_bytes,
            pinned_block=known.threads,
            code_hash=hashlib.sha256(code).hexdigest(),
        ),
        buffers=tuple(
            # What the type of a parameter forbids, the code does not do; the rest is declared.
            BufferAccess(item.name, item.access if is_written else "read", not is_written)
            for item, is_written in zip(unit.arguments, known.written, strict=False)
        ),
    )


def _compare(unit: KernelUnit, known: Footprint) -> None:
    """Hold the parameters of a kernel against what its design states; a preparation states none."""
    if not unit.arguments:
        return
    if len(known.written) != len(unit.arguments):
        named = ", ".join(argument.name for argument in unit.arguments)
        raise XpuBuildError(
            f"the kernel takes {len(known.written)} arrays, the design has {len(unit.arguments)} "
            f"({named}); give the kernel one xpu::global<T> for each, in this order"
        )
    for argument, is_written in zip(unit.arguments, known.written, strict=True):
        if is_written and argument.access == "read":
            raise XpuBuildError(
                f"the design only reads {argument.name!r}, and the kernel may write it; make its "
                "parameter an xpu::global<const T>, or the design's argument one to update"
            )
