"""The instructions of a shared object as `objdump` writes them, where that is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from xpu.errors import XpuBuildError
from xpu_backend_cpu.process import Processes

_FIX: Final = "install binutils"
_DEADLINE_S: Final = 60.0
_OPTIONS: Final = ("--disassemble", "--section=.text", "--no-show-raw-insn")
_PLACE: Final = re.compile(r"^ *[0-9a-f]+:\s+", re.MULTILINE)
"""Where an instruction lies: one more before it moves all that follow."""


def disassembly(code: Path) -> str:
    """Return the instructions of a shared object, without their places.

    Raises
    ------
    XpuBuildError
        There is no `objdump`, or it refuses the file.
    """
    tool = shutil.which("objdump")
    if tool is None:
        raise XpuBuildError(f"there is no objdump; {_FIX}")
    try:
        done = Processes().run((tool, *_OPTIONS, str(code)), deadline_s=_DEADLINE_S)
    except OSError as error:
        raise XpuBuildError(f"{tool} does not run: {error.strerror or error}; {_FIX}") from error
    if done.status != 0:
        said = (done.errors.strip().splitlines() or ["it says nothing"])[0]
        raise XpuBuildError(f"{tool} gave exit status {done.status}: {said}")
    _, _, body = done.output.partition("section .text:")
    return _PLACE.sub("", body)
