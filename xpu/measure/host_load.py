"""A host kept busy: every core streams through memory while something else is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from xpu.errors import XpuError

STREAM_BYTES: Final = 16 << 20
"""What each core copies, and where to: with those of its neighbours more than any cache holds."""

# Written to first: pages that nothing has written are one page of zeros, in every cache. It
# ends by itself when its parent is gone, however that ended.
_STREAM: Final = """
import os, sys
parent = os.getppid()
source, target = (memoryview(bytearray(b"x") * int(sys.argv[1])) for _ in range(2))
os.write(1, b".")
while os.getppid() == parent:
    target[:] = source
"""


@contextmanager
def host_load(processes: int | None = None) -> Iterator[None]:
    """Keep processes copying memory while the context is open; None: one for each core.

    They are processes and not threads: those would take turns with the measuring one at the
    interpreter.

    Raises
    ------
    XpuError
        A process cannot be started.
    """
    count = len(os.sched_getaffinity(0)) if processes is None else processes
    command = [sys.executable, "-I", "-S", "-c", _STREAM, str(STREAM_BYTES)]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            running.append(_started(command))  # noqa: PERF401 - started ones end if one fails
        for process in running:
            if process.stdout is None or process.stdout.read(1) != b".":
                raise XpuError("the host cannot be kept busy: a process ended at once")
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.communicate()


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - this interpreter, on the program above
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise XpuError(f"the host cannot be kept busy: {error}") from error
