"""Finds the C++ compiler of this machine, once per process, and runs it under a deadline.

``$CXX`` comes first, then ``g++``, ``clang++`` and ``c++`` on PATH, then the package
``ziglang``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from xpu.errors import XpuBuildError

FIX: Final = "install g++ or clang++, or run: pip install ziglang"
_ANSWER_DEADLINE_S: Final = 30.0


@attrs.frozen
class Finished:
    """A process that ended; `status` is None when the deadline ended it."""

    status: int | None
    output: str


@attrs.frozen
class Toolchain:
    """A compiler: the command that starts it, its family and its version."""

    command: tuple[str, ...]
    family: Literal["gcc", "clang"]
    version: str

    @property
    def identity(self) -> str:
        """Family and version, for instance ``gcc 12.2.0``."""
        return f"{self.family} {self.version}"


def run(command: Sequence[str], directory: Path | None, deadline_s: float) -> Finished:
    """Run a command and what it starts to their end, at most `deadline_s` seconds.

    Raises
    ------
    OSError
        The command cannot be started.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    for name in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        environment.pop(name, None)  # a kernel includes what its design supplies, nothing else
    if directory is not None:
        # A killed compiler leaves its temporary files behind: here they go with the directory.
        environment["TMPDIR"] = str(directory)
    process = subprocess.Popen(  # noqa: S603 - the user's own compiler
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=deadline_s)
        except BaseException as error:
            # A driver starts further processes: the group goes as a whole.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return Finished(None, "")
            raise
    return Finished(process.returncode, output)


def find_toolchain() -> Toolchain:
    """Find the compiler.

    Raises
    ------
    XpuBuildError
        There is none, or the one that ``$CXX`` names does not run.
    """
    return _find(os.environ.get("CXX", "").strip(), os.environ.get("PATH", os.defpath))


@functools.cache
def _find(named: str, path: str) -> Toolchain:
    if named:
        try:
            return _identified(tuple(shlex.split(named)))
        except (XpuBuildError, ValueError) as error:
            raise XpuBuildError(
                f"$CXX is {named!r}, which does not work as a C++ compiler: {error}; "
                "set CXX to a C++ compiler, or unset it"
            ) from error
    broken: list[XpuBuildError] = []
    for name in ("g++", "clang++", "c++"):
        found = shutil.which(name, path=path)
        if found is not None:
            try:
                return _identified((found,))
            except XpuBuildError as error:
                broken.append(error)
    if importlib.util.find_spec("ziglang") is not None:
        return _identified((sys.executable, "-m", "ziglang", "c++"))
    found_but = "".join(f" ({error})" for error in broken)
    raise XpuBuildError(f"no C++ compiler was found on PATH{found_but}; {FIX}")


def _identified(command: tuple[str, ...]) -> Toolchain:
    shown = shlex.join(command)
    try:
        answer = run((*command, "-dM", "-E", "-x", "c++", os.devnull), None, _ANSWER_DEADLINE_S)
    except OSError as error:
        raise XpuBuildError(f"{shown} does not run: {error.strerror or error}") from error
    if answer.status is None:
        raise XpuBuildError(f"{shown} did not answer within {_ANSWER_DEADLINE_S:.0f} s")
    lines = (line.split(maxsplit=2) for line in answer.output.splitlines())
    macros = {part[1]: part[2] for part in lines if len(part) > 2 and part[0] == "#define"}
    if answer.status != 0 or "__VERSION__" not in macros:
        reason = answer.output.strip().splitlines()[:1] or ["it names no version"]
        raise XpuBuildError(f"{shown} gave exit status {answer.status}: {reason[0]}")
    version = macros.get("__clang_version__", macros["__VERSION__"]).strip('"').split()[0]
    return Toolchain(command, "clang" if "__clang__" in macros else "gcc", version)
