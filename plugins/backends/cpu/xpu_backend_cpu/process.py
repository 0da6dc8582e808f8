"""Runs a compiler as a child that cannot outlive its deadline.

A compiler driver starts further processes; each run has a process group of its own, and
the whole group is killed when the deadline passes or the caller is interrupted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import attrs


@attrs.frozen
class Finished:
    """A process that ended; `status` is None when the deadline ended it."""

    status: int | None
    output: str
    errors: str


class Processes:
    """Runs processes from several threads, and can end all of them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def run(
        self, command: Sequence[str], *, deadline_s: float, directory: Path | None = None
    ) -> Finished:
        """Run a command to its end, at most `deadline_s` seconds.

        Raises
        ------
        OSError
            The command cannot be started.
        """
        environment = {**os.environ, "LC_ALL": "C"}
        if directory is not None:
            # A killed compiler leaves its temporary files behind: here they go with the directory.
            environment["TMPDIR"] = str(directory)
        with self._lock:
            if self._is_stopped:
                return Finished(None, "", "interrupted")
            process = subprocess.Popen(  # noqa: S603 - the user's own compiler
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                process_group=0,
            )
            self._live.add(process)
        try:
            with process:
                return _wait(process, deadline_s)
        finally:
            with self._lock:
                self._live.discard(process)

    def stop(self) -> None:
        """Kill what runs, and start nothing any more."""
        with self._lock:
            self._is_stopped = True
            for process in self._live:
                _kill(process)


def _wait(process: subprocess.Popen[str], deadline_s: float) -> Finished:
    try:
        output, errors = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Finished(None, "", "")
    except BaseException:
        _kill(process)
        raise
    return Finished(process.returncode, output, errors)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
