"""Runs a compiler and what it starts to their end, or to a deadline."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

_LATE_S: Final = 5
"""Seconds of processor time past the deadline after which a compiler whose starter is gone ends."""
_OF_THE_USER: Final = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),  # a kernel includes what it is given
    *("CCC_OVERRIDE_OPTIONS", "COMPILER_PATH"),  # the flags are those of the fingerprint
)


@attrs.frozen
class Finished:
    """A process that ended; `status` is None when the deadline ended it."""

    status: int | None
    output: str


def run(command: Sequence[str], directory: Path | None, deadline_s: float) -> Finished:
    """Run a command, at most `deadline_s` seconds, with its temporary files in a directory.

    Raises
    ------
    OSError
        The command cannot be started.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    for name in _OF_THE_USER:
        environment.pop(name, None)
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
            _limit(process.pid, deadline_s)
            output, _ = process.communicate(timeout=deadline_s)
        except BaseException as error:
            # A driver starts further processes: the group goes as a whole.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return Finished(None, "")
            raise
    return Finished(process.returncode, output)


def _limit(pid: int, deadline_s: float) -> None:
    """Let the kernel end a process that nobody is left to end."""
    seconds = math.ceil(deadline_s) + _LATE_S
    with contextlib.suppress(OSError, ValueError):  # gone already, or under a lower limit
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds))
