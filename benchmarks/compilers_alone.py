"""The compilers' own time: the programs that a build ran, run again with none of XPU around them.

`Recording` notes what the compiler halves of the backends start, and with which files; `replay`
starts the same, as many at once, in copies of those directories. Nothing is read of what they
leave behind.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import attrs


@attrs.define
class Task:
    """The programs of one kernel, in order: their directory as it was before the first one.

    A program is a command, or for one that reads a job, a command and the job.
    """

    directory: Path | None
    before: Path | None
    programs: list[tuple[list[str], bytes | None]] = attrs.field(factory=list)


class Recording:
    """Notes the programs that are started while `watching`."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self.tasks: list[Task] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note what the backends for the CPU, CUDA and HIP start."""
        import xpu_backend_cpu.compiler as cpu
        import xpu_backend_cuda.toolchain as cuda
        import xpu_backend_hip.compiler as hip

        of_cpu, of_cuda, of_hip = cpu.Processes.run, cuda.Toolchain.run, hip.run

        def run_cpu(processes: Any, command: Any, **how: Any) -> Any:
            self._note(command, how.get("directory"))
            return of_cpu(processes, command, **how)

        def run_hip(command: Any, directory: Path | None, deadline_s: float) -> Any:
            self._note(command, directory)
            return of_hip(command, directory, deadline_s)

        def run_cuda(toolchain: Any, job: Any) -> Any:
            command = [sys.executable, "-I", "-S", cuda.nvrtc.__file__]
            self.tasks.append(Task(None, None, [(command, json.dumps(job).encode())]))
            return of_cuda(toolchain, job)

        with (
            mock.patch.object(cpu.Processes, "run", run_cpu),
            mock.patch.object(cuda.Toolchain, "run", run_cuda),
            mock.patch.object(hip, "run", run_hip),
        ):
            yield

    def _note(self, command: Sequence[str], directory: Path | None) -> None:
        if directory is None:
            return  # asked of the compiler itself, not of a kernel
        known = next((task for task in self.tasks if task.directory == directory), None)
        if known is None:
            before = Path(tempfile.mkdtemp(dir=self._scratch)) / "before"
            shutil.copytree(directory, before)
            known = Task(directory, before)
            self.tasks.append(known)
        known.programs.append((list(command), None))


def replay(tasks: Sequence[Task], at_once: int, scratch: Path) -> float:
    """Run the programs of all tasks, so many tasks at once, and return the seconds it took.

    Raises
    ------
    RuntimeError
        A program that succeeded when it was recorded does not.
    """
    places = [_copied(task, scratch) for task in tasks]
    started = time.perf_counter()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        statuses = list(pool.map(_run, tasks, places))
    seconds = time.perf_counter() - started
    if any(statuses):
        raise RuntimeError(f"{sum(map(bool, statuses))} programs failed that succeeded before")
    return seconds


def _copied(task: Task, scratch: Path) -> Path:
    place = Path(tempfile.mkdtemp(dir=scratch)) / "unit"
    if task.before is None:
        place.mkdir()
    else:
        shutil.copytree(task.before, place)
    return place


def _run(task: Task, place: Path) -> int:
    for command, given in task.programs:
        words = [word.replace(str(task.directory), str(place)) for word in command]
        done = subprocess.run(  # noqa: S603 - what the backends start
            words, cwd=place, input=given, capture_output=True, check=False
        )
        if done.returncode:
            return done.returncode
    return 0
