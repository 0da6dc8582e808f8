"""Finds the C compiler of this machine, once per process.

``$CC`` comes first, then ``cc``, ``gcc`` and ``clang`` on PATH, then the package
``ziglang``. The compiler says itself what it is: its predefined macros name it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import attrs

from xpu.errors import XpuBuildError
from xpu.spec import remembered
from xpu_backend_cpu.machine import cpu_signature
from xpu_backend_cpu.process import Processes

Family = Literal["gcc", "clang", "zig"]
FIX: Final = "install gcc or clang, or run: pip install ziglang"
_ANSWER_DEADLINE_S: Final = 30.0
_FIRST_REPORT: Final = 16
"""From this clang on stack frames are asked for; with older ones the option was not tried.
Source of the option: LLVM review D100509."""
_COMPILER: Final = re.compile(r"gcc|clang|zig")
_HEEDED: Final = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS")
"""Variables that change which program a compiler's driver starts, or with what options."""


@attrs.frozen
class Toolchain:
    """A compiler: the command that starts it, its family and its version."""

    command: tuple[str, ...]
    family: Family
    version: str

    @property
    def identity(self) -> str:
        """Family and version, for instance ``gcc 12.2.0``."""
        return f"{self.family} {self.version}"

    @property
    def reports_stack(self) -> bool:
        """Whether ``-fstack-usage`` leaves a report: of zig's the build cache swallows it."""
        is_new = self.family == "clang" and int(self.version.partition(".")[0]) >= _FIRST_REPORT
        return self.family == "gcc" or is_new

    @property
    def tells_spills(self) -> bool:
        """Whether comments in its assembly tell which instructions spill a register."""
        return self.family != "gcc"

    def macros(self, *flags: str) -> Mapping[str, str]:
        """Return the macros that the compiler predefines under some flags.

        Raises
        ------
        XpuBuildError
            The compiler does not answer.
        """
        return _macros((*self.command, *flags))


def find_toolchain() -> Toolchain:
    """Find the compiler.

    Raises
    ------
    XpuBuildError
        There is none, or the one that ``$CC`` names does not run.
    """
    return _find(os.environ.get("CC", "").strip(), os.environ.get("PATH", os.defpath))


@functools.cache
def _find(named: str, path: str) -> Toolchain:
    if named:
        try:
            return _identified(tuple(shlex.split(named)))
        except (XpuBuildError, ValueError) as error:
            raise XpuBuildError(
                f"$CC is {named!r}, which does not work as a C compiler: {error}; "
                "set CC to a C compiler, or unset it"
            ) from error
    broken: list[XpuBuildError] = []
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name, path=path)
        if found is not None:
            try:
                return _identified((found,))
            except XpuBuildError as error:
                broken.append(error)
    if importlib.util.find_spec("ziglang") is not None:
        return _identified((sys.executable, "-m", "ziglang", "cc"))
    found_but = "".join(f" ({error})" for error in broken)
    raise XpuBuildError(f"no C compiler was found on PATH{found_but}; {FIX}")


def _identified(command: tuple[str, ...]) -> Toolchain:
    macros = _macros(command)
    text = macros.get("__clang_version__") or macros.get("__VERSION__") or '"unknown"'
    version = text.strip('"').split()[0]
    if "__clang__" not in macros:
        return Toolchain(command, "gcc", version)
    is_zig = "ziglang" in command or Path(command[0]).name.startswith("zig")
    return Toolchain(command, "zig" if is_zig else "clang", version)


def _macros(command: tuple[str, ...]) -> dict[str, str]:
    text = asked(command, ("-dM", "-E", "-x", "c", os.devnull), _answer)
    lines = (line.split(maxsplit=2) for line in text.splitlines())
    macros = {
        part[1]: part[2] if len(part) > 2 else ""
        for part in lines
        if len(part) > 1 and part[0] == "#define"
    }
    if not macros:
        raise XpuBuildError(f"{shlex.join(command)} names no macros")
    return macros


def asked(
    command: tuple[str, ...], options: tuple[str, ...], ask: Callable[[tuple[str, ...]], str]
) -> str:
    """Return what `ask` makes of a compiler's answer to some options, once for its files.

    Parameters
    ----------
    ask
        Runs the whole command; what it raises is raised.
    """
    whole = (*command, *options)
    files = _files(command)
    if not files:
        return ask(whole)
    question = [*whole, *(f"{name}={os.environ.get(name)}" for name in _HEEDED)]
    if any("native" in word for word in question):
        question.append(cpu_signature())
    return remembered(shlex.join(question), lambda: (ask(whole), files))


def _files(command: tuple[str, ...]) -> list[str]:
    """Return the programs behind a command; none where they do not tell all that it does.

    A script, or a program that starts another compiler (ccache), may change its mind while its
    file stays as it is.
    """
    if command[1:3] == ("-m", "ziglang"):
        spec = importlib.util.find_spec("ziglang")
        places = (spec and spec.submodule_search_locations) or ()
        return [os.path.join(place, "zig") for place in places]  # noqa: PTH118 - texts are asked for
    path = os.path.realpath(command[0])
    if not _COMPILER.search(Path(path).name):
        return []
    try:
        with Path(path).open("rb") as file:
            return [path] if file.read(4) == b"\x7fELF" else []
    except OSError:
        return []


def _answer(command: tuple[str, ...]) -> str:
    shown = shlex.join(command)
    try:
        answer = Processes().run(command, deadline_s=_ANSWER_DEADLINE_S)
    except OSError as error:
        raise XpuBuildError(f"{shown} does not run: {error.strerror or error}") from error
    if answer.status is None:
        raise XpuBuildError(f"{shown} did not answer within {_ANSWER_DEADLINE_S:.0f} s")
    if answer.status != 0 or not answer.output.strip():
        reason = answer.errors.strip().splitlines()[:1] or ["it says nothing"]
        raise XpuBuildError(f"{shown} gave exit status {answer.status}: {reason[0]}")
    return answer.output
