"""From the fault that the runtime recorded to a message: what, where, and in which line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from xpu_backend_emulator.code import Code, Fault

CHECKS: Final = (
    "",
    "out-of-bounds load",
    "out-of-bounds store",
    "misaligned access",
    "read of memory that nothing wrote",
    "data race",
    "divergent barrier",
    "divergent wave verb",
    "no such lane",
    "partial wave",
    "copy in flight",
    "copy left behind",
    "no such copy",
    "index outside an array of the thread",
    "undefined arithmetic",
    "unpublished lines",
    "product in flight",
    "product left behind",
)
"""Names of the checks, in the order of ``check`` in ``runtime/xpu_emulator.h``."""
_DEADLINE_S: Final = 5.0
_PRELUDE: Final = re.compile(r"^xpu_(simt|emulator)\w*\.h$")


def message(entry: str, code: Code, fault: Fault) -> str:
    """Say which check failed, in which kernel, block and thread, and where in the source."""
    wave, lane = divmod(fault.thread, code.descriptor.wave)
    block = ", ".join(map(str, fault.block))
    place = _line(code, fault.address) if fault.address else ""
    return (
        f"{CHECKS[fault.check]}: kernel {entry!r}, block ({block}), thread {fault.thread} "
        f"(wave {wave}, lane {lane}): {fault.text.decode('utf-8', 'replace')}{place}"
    )


def _line(code: Code, address: int) -> str:
    """Return the line behind an address, as `` at file:line``; empty where it cannot be told."""
    tool = shutil.which("addr2line")
    base = _load_address(code)
    if tool is None or base is None:
        return ""
    # The address is that of the return: the call itself lies before it.
    command = [tool, "-i", "-e", str(code.path), hex(address - base - 1)]
    try:
        answer = subprocess.run(  # noqa: S603 - a tool of the host's toolchain
            command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    for line in answer.stdout.splitlines():
        found = re.match(r"(?P<file>.+):(?P<line>\d+)", line)
        if found and not _PRELUDE.match(Path(found["file"]).name):
            return f", at {Path(found['file']).name}:{found['line']}"
    return ""


def _load_address(code: Code) -> int | None:
    """Return where the object begins in this process."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8")
    except OSError:
        return None
    real = os.path.realpath(code.path)
    for line in maps.splitlines():
        part = line.split(maxsplit=5)
        if len(part) == 6 and part[5] == real:
            return int(part[0].partition("-")[0], 16)
    return None
