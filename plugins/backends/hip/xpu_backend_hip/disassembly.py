"""The instructions of a code object as `llvm-objdump` writes them, where a release knows the part.

The package `ziglang` has none: what the compiler left as assembly is there in its place.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from xpu.errors import XpuBuildError
from xpu_backend_hip.process import run
from xpu_backend_hip.toolchain import Toolchain

_TOOL: Final = "llvm-objdump"
_DEADLINE_S: Final = 60.0
_OPTIONS: Final = ("--disassemble", "--no-leading-addr", "--no-show-raw-insn")
_PLACE: Final = re.compile(r"\s*// [0-9A-F]+:.*")
"""Where an instruction lies: one more before it moves all that follow."""


def disassembly(toolchain: Toolchain, code: Path) -> str:
    """Return the instructions of a code object, without their places.

    Raises
    ------
    XpuBuildError
        There is no disassembler of the compiler's release, or it does not know the part.
    """
    release = toolchain.version.partition(".")[0]
    beside = Path(toolchain.command[0]).resolve().parent / _TOOL
    named = (str(beside), f"{_TOOL}-{release}", _TOOL)
    tool = next((found for name in named if (found := shutil.which(name))), None)
    fix = f"install llvm-{release}, or ROCm"
    if tool is None:
        raise XpuBuildError(f"there is no {_TOOL}; {fix}")
    try:
        done = run((tool, *_OPTIONS, str(code)), None, _DEADLINE_S)
    except OSError as error:
        raise XpuBuildError(f"{tool} does not run: {error.strerror or error}; {fix}") from error
    if done.status != 0:
        said = (done.output.strip().splitlines() or ["it says nothing"])[-1]
        raise XpuBuildError(f"{tool} gave exit status {done.status}: {said}; {fix}")
    return _PLACE.sub("", done.output.partition("section .text:")[2])
