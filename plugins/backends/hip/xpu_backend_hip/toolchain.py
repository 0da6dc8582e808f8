"""Finds a clang that compiles for AMD's GPUs, and its linker, once per process.

First the ``clang`` of PATH, then ``clang-22`` and others with a number, the highest first, then
the package ``ziglang``, which carries both. Whatever ROCm has installed is one of the first.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Final

import attrs

from xpu.errors import XpuBuildError
from xpu.spec import remembered
from xpu_backend_hip.process import Finished, run
from xpu_backend_hip.targets import is_served

FIX: Final = "pip install 'xpu-orchestrator[hip-compile]'"
_READERS: Final = {"elftools": "pyelftools", "msgpack": "msgpack"}
_LEAST: Final = 19
"""The first release that knows gfx1201; with older ones the prelude was not tried."""
_ANSWER_DEADLINE_S: Final = 30.0
_VERSION: Final = re.compile(r"clang version ((\d+)\.[\d.]+)")
_NUMBERED: Final = re.compile(r"clang-(\d+)")
_COMPILER: Final = re.compile(r"clang|zig")
"""Programs that are compilers themselves: one that starts another (ccache) may change its mind
while its file stays as it is."""
_HEEDED: Final = ("PATH", "COMPILER_PATH", "CCC_OVERRIDE_OPTIONS")
"""Variables on which an answer depends: where the linker is looked for, and options."""
_LIST: Final = ("--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus")


@attrs.frozen
class Toolchain:
    """A compiler with its linker.

    Attributes
    ----------
    command
        What starts the compiler.
    linker
        Words that start a linker which the compiler does not find by itself; else empty.
    version, banner
        Its version, and the line in which it says that and whose it is.
    targets
        The processors that it knows and the prelude serves.
    """

    command: tuple[str, ...]
    linker: tuple[str, ...]
    version: str
    banner: str
    targets: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Name and version, for instance ``clang 22.1.8``."""
        return f"clang {self.version}"


def find_toolchain() -> Toolchain:
    """Find the compiler.

    Raises
    ------
    XpuBuildError
        There is none, none with a linker, or nothing that reads its code objects.
    """
    missing = [name for name in _READERS if importlib.util.find_spec(name) is None]
    if missing:
        named = " ".join(_READERS[name] for name in missing)
        raise XpuBuildError(
            f"what reads AMD's code objects is not installed; {FIX}, or without a compiler: "
            f"pip install {named}"
        )
    return _find(os.environ.get("PATH", os.defpath))


@functools.cache
def _find(path: str) -> Toolchain:
    broken: list[str] = []
    for name in ("clang", *_numbered(path)):
        found = shutil.which(name, path=path)
        if found is not None:
            try:
                return _identified((found,), None)
            except XpuBuildError as error:
                broken.append(str(error))
    zig = _zig()
    if zig is not None:
        return _identified((zig, "clang"), (zig, "ld.lld"))
    found_but = f" ({'; '.join(broken)})" if broken else ""
    raise XpuBuildError(
        f"no clang of release {_LEAST} or newer with its lld was found on PATH{found_but}, and the "
        f"package ziglang is not installed; {FIX}"
    )


def _numbered(path: str) -> list[str]:
    """Name the compilers of PATH that bear their release in the name, the newest first."""
    found: set[str] = set()
    for directory in filter(None, path.split(os.pathsep)):
        found.update(entry.name for entry in Path(directory).glob("clang-*"))
    releases = {int(match[1]) for name in found if (match := _NUMBERED.fullmatch(name))}
    return [f"clang-{release}" for release in sorted(releases, reverse=True)]


def _zig() -> str | None:
    spec = importlib.util.find_spec("ziglang")
    for place in (spec and spec.submodule_search_locations) or ():
        found = shutil.which(str(Path(place) / "zig"))
        if found is not None:
            return found
    return None


def _identified(command: tuple[str, ...], linker: tuple[str, ...] | None) -> Toolchain:
    banner = _answer(command, "--version").partition("\n")[0].strip()
    match = _VERSION.search(banner)
    if match is None:
        raise XpuBuildError(f"{command[0]} says {banner!r} and no version of clang")
    if int(match[2]) < _LEAST:
        raise XpuBuildError(f"{command[0]} is clang {match[1]}, older than {_LEAST}")
    if linker is None:
        lld = _answer(command, "-print-prog-name=ld.lld").strip()
        if shutil.which(lld) is None:
            raise XpuBuildError(f"{command[0]} finds no lld; install lld-{match[2]}")
    words = _answer(command, *_LIST).split()
    targets = tuple(word for word in words if is_served(word))
    if not targets:
        raise XpuBuildError(f"{command[0]} was built without AMD's targets")
    return Toolchain(command, linker or (), match[1], banner, targets)


def _answer(command: tuple[str, ...], *options: str) -> str:
    """Return what a compiler says, asked once for its program where that tells all that it does."""
    path = os.path.realpath(shutil.which(command[0]) or command[0])
    if _COMPILER.search(Path(path).name) and _is_program(path):
        question = [path, *command, *options]
        question += [f"{name}={os.environ.get(name)}" for name in _HEEDED]
        return remembered(shlex.join(question), lambda: (_said(command, *options), [path]))
    return _said(command, *options)


def _is_program(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _said(command: tuple[str, ...], *options: str) -> str:
    try:
        answer: Finished = run((*command, *options), None, _ANSWER_DEADLINE_S)
    except OSError as error:
        raise XpuBuildError(f"{command[0]} does not run: {error.strerror or error}") from error
    if answer.status is None:
        raise XpuBuildError(f"{command[0]} did not answer within {_ANSWER_DEADLINE_S:.0f} s")
    if answer.status != 0:
        reason = (answer.output.strip().splitlines() or ["it says nothing"])[0]
        raise XpuBuildError(f"{command[0]} gave exit status {answer.status}: {reason}")
    return answer.output
