"""The instructions of a CUBIN as NVIDIA's disassembler writes them, where that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from xpu.errors import XpuBuildError

_TOOL: Final = "nvdisasm"
_FIX: Final = "pip install nvidia-cuda-nvdisasm"
_DEADLINE_S: Final = 60
_PLACE: Final = re.compile(r"/\*[0-9a-f]{4,}\*/ *")
"""Where an instruction lies: one more before it moves all that follow."""


def disassembly(code: Path) -> str:
    """Return the instructions of a CUBIN, without their places.

    Raises
    ------
    XpuBuildError
        There is no disassembler, or it refuses the file.
    """
    found = _found()
    if found is None:
        raise XpuBuildError(f"there is no {_TOOL}; {_FIX}")
    try:
        done = subprocess.run(  # noqa: S603 - the vendor's own tool
            [found, "--print-code", str(code)],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise XpuBuildError(f"{found} does not run: {error}; {_FIX}") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
        raise XpuBuildError(f"{found} gave exit status {done.returncode}: {said}")
    return _PLACE.sub("", done.stdout)


def _found() -> str | None:
    try:
        from cuda import pathfinder
    except ImportError:
        return shutil.which(_TOOL)
    # Older releases of the finder know libraries alone.
    find = getattr(pathfinder, "find_nvidia_binary_utility", shutil.which)
    place = find(_TOOL)
    return None if place is None else str(place)
