"""A worker process that runs code which nobody has seen run.

The parent (`Worker`) sends one job at a time and waits under a deadline; a crash, a hang
or a device context that went bad takes the process along and nothing else. The child
(`xpu.choice.worker_child`) makes the backend anew by calling its class.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from xpu.choice.fault import MemberFault
from xpu.choice.job import Job
from xpu.registry import bare, owner_of

if TYPE_CHECKING:
    from xpu.spec import Backend

START_DEADLINE_S: Final = 60.0
"""Seconds for a worker to import, open the device and say so; a loaded machine is slow."""

JOB_DEADLINE_S: Final = 20.0
"""Seconds for one job. Source: the largest shipped check takes under 2 s on two shared
cores without vector instructions; ten times that is a kernel that does not end."""

_FAULTS: Final = frozenset(
    {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGSTKFLT"}
)
"""Signals by which a process ends itself. Any other came from outside (a closed terminal, an
operator, a machine out of memory) and says nothing of the code."""

LENGTH: Final = struct.Struct("<Q")


class Worker:
    """The parent's side: one child process at a time, started when first needed.

    `runtime` are the files that the backend was given in the place of a compiler, if it was.
    """

    def __init__(
        self,
        backend: Backend,
        index: int,
        *,
        deadline_s: float | None = None,
        runtime: Mapping[str, Path] | None = None,
    ) -> None:
        cls = type(bare(backend))
        self._birth = (cls.__module__, cls.__qualname__, index, owner_of(backend), runtime)
        self._deadline_s = JOB_DEADLINE_S if deadline_s is None else deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        # Ends the process also when this object goes without being closed.
        self._end: Callable[[], object] = lambda: None
        self._is_closed = False
        self._lock = threading.Lock()

    def run(self, job: Job, *, work_s: float = 0.0) -> list[Any]:
        """Run a job in the child and return its results.

        Parameters
        ----------
        work_s
            Seconds that the job's own work may take, beyond the deadline of any job.

        Raises
        ------
        MemberFault
            ``crashed``, ``hung`` or ``failed``, with what is known of why.
        """
        with self._lock:
            return self._answered(job, self._deadline_s + work_s)

    def rest(self) -> None:
        """Stop the child until the next job, once the one under way is done."""
        with self._lock:
            self._stop()

    def close(self) -> None:
        """Stop the child for good; a job under way in another thread fails."""
        self._is_closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._stop()

    def _answered(self, job: Job, deadline_s: float) -> list[Any]:
        process = self._started()
        try:
            send(process.stdin, (deadline_s, job))
            status, value = _receive(process, deadline_s)
        except Gone:
            raise self._obituary(process) from None
        except _Late:
            self._stop()
            raise MemberFault(
                "hung", f"did not end within {deadline_s:g} s and was stopped"
            ) from None
        except BaseException:
            # Interrupted half-way: the pipe holds half a message, so the child must go.
            self._stop()
            raise
        if status == "lost":
            self._stop()
        if status != "done":
            raise MemberFault("failed", value)
        results: list[Any] = value
        return results

    def _stop(self) -> None:
        self._process = None
        self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        if self._is_closed:
            raise MemberFault("failed", "the worker process was closed")
        if not sys.executable:
            raise MemberFault(
                "failed",
                "the worker process did not start: sys.executable is empty, as in a program that "
                "embeds Python; set it to a Python interpreter that imports xpu",
            )
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)}
        try:
            self._process = subprocess.Popen(
                # -P: no module of the directory that the program happens to be in.
                [sys.executable, "-P", "-m", "xpu.choice.worker_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if environ.get("XPU_TRACEBACK") == "1" else subprocess.DEVNULL,
                env=environ,
            )
            self._end = weakref.finalize(self, _ended, self._process)
            send(self._process.stdin, self._birth)
            status, value = _receive(self._process, START_DEADLINE_S)
        except BaseException as cause:
            self._stop()
            if not isinstance(cause, Gone | _Late | OSError):
                raise
            why = f": {cause}" if str(cause) else ""
            raise MemberFault("failed", f"the worker process did not start{why}") from None
        if status == "error":
            self._stop()
            raise MemberFault("failed", f"the worker process did not start: {value}")
        return self._process

    def _obituary(self, process: subprocess.Popen[bytes]) -> MemberFault:
        code = process.wait()
        self._stop()
        if code >= 0:
            return MemberFault("crashed", f"the worker process ended with exit status {code}")
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        if name == "SIGALRM":
            return MemberFault("hung", "the worker process passed its deadline and ended itself")
        if name in _FAULTS:
            return MemberFault("crashed", f"the worker process was ended by {name}")
        return MemberFault("failed", f"the worker process was ended from outside by {name}")


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class Gone(Exception):  # noqa: N818 - it ends a conversation, it is nobody's error
    """The other side closed its pipe."""


class _Late(Exception):  # noqa: N818 - private: the deadline passed
    pass


def send(pipe: IO[bytes] | None, message: Any) -> None:
    """Write one message.

    Raises
    ------
    Gone
        The other side closed its pipe.
    """
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    if pipe is None:
        raise Gone
    try:
        pipe.write(LENGTH.pack(len(data)))
        pipe.write(data)
        pipe.flush()
    except OSError:
        raise Gone from None


def _receive(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[str, Any]:
    until = time.monotonic() + deadline_s
    head = _read(process, LENGTH.size, until)
    body = _read(process, LENGTH.unpack(head)[0], until)
    # Ours to trust: the child runs this very module, as this very user.
    answer: tuple[str, Any] = pickle.loads(body)  # noqa: S301 - see above
    return answer


def _read(process: subprocess.Popen[bytes], count: int, until: float) -> bytes:
    if process.stdout is None:
        raise Gone
    descriptor, parts = process.stdout.fileno(), []
    poll = select.poll()  # not select: a server's descriptors outgrow it
    poll.register(descriptor, select.POLLIN)
    while count:
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise _Late
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            raise Gone
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
