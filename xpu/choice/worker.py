"""A worker process that runs code which nobody has seen run.

The parent (`Worker`) sends one job at a time and waits under a deadline; a crash, a hang
or a device context that went bad takes the process along and nothing else. The child
(``python -m xpu.choice.worker``) makes the backend anew by calling its class.
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
import time
from typing import IO, TYPE_CHECKING, Any, Final

from xpu.choice.fault import MemberFault
from xpu.choice.job import Job, run_job

if TYPE_CHECKING:
    from xpu.spec import Backend

START_DEADLINE_S: Final = 60.0
"""Seconds for a worker to import, open the device and say so; a loaded machine is slow."""

JOB_DEADLINE_S: Final = 20.0
"""Seconds for one job. Source: the largest shipped check takes under 2 s on two shared
cores without vector instructions; ten times that is a kernel that does not end."""

_LENGTH: Final = struct.Struct("<Q")


class Worker:
    """The parent's side: one child process at a time, started when first needed."""

    def __init__(self, backend: Backend, index: int, *, deadline_s: float | None = None) -> None:
        cls = type(backend)
        self._birth = (cls.__module__, cls.__qualname__, index)
        self._deadline_s = JOB_DEADLINE_S if deadline_s is None else deadline_s
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: Job) -> list[Any]:
        """Run a job in the child and return its results.

        Raises
        ------
        MemberFault
            ``crashed``, ``hung`` or ``failed``, with what is known of why.
        """
        process = self._started()
        try:
            _send(process.stdin, job)
            status, value = _receive(process, self._deadline_s)
        except _Gone:
            raise MemberFault("crashed", self._obituary(process)) from None
        except _Late:
            self.close()
            raise MemberFault(
                "hung", f"did not end within {self._deadline_s:g} s and was stopped"
            ) from None
        except BaseException:
            # Interrupted half-way: the pipe holds half a message, so the child must go.
            self.close()
            raise
        if status == "error":
            raise MemberFault("failed", value)
        results: list[Any] = value
        return results

    def close(self) -> None:
        """Stop the child, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "xpu.choice.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
        try:
            _send(self._process.stdin, self._birth)
            status, value = _receive(self._process, START_DEADLINE_S)
        except (_Gone, _Late):
            self.close()
            raise MemberFault("failed", "the worker process did not start") from None
        if status == "error":
            self.close()
            raise MemberFault("failed", f"the worker process did not start: {value}")
        return self._process

    def _obituary(self, process: subprocess.Popen[bytes]) -> str:
        code = process.wait()
        self.close()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"the worker process was ended by {signal.Signals(-code).name}"
        return f"the worker process ended with exit status {code}"


class _Gone(Exception):  # noqa: N818 - private: the child closed its pipe
    pass


class _Late(Exception):  # noqa: N818 - private: the deadline passed
    pass


def _send(pipe: IO[bytes] | None, message: Any) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    if pipe is None:
        raise _Gone
    try:
        pipe.write(_LENGTH.pack(len(data)))
        pipe.write(data)
        pipe.flush()
    except OSError:
        raise _Gone from None


def _receive(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[str, Any]:
    until = time.monotonic() + deadline_s
    head = _read(process, _LENGTH.size, until)
    body = _read(process, _LENGTH.unpack(head)[0], until)
    # Ours to trust: the child runs this very module, as this very user.
    answer: tuple[str, Any] = pickle.loads(body)  # noqa: S301
    return answer


def _read(process: subprocess.Popen[bytes], count: int, until: float) -> bytes:
    if process.stdout is None:
        raise _Gone
    descriptor, parts = process.stdout.fileno(), []
    while count:
        left = until - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise _Late
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            raise _Gone
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _serve(commands: IO[bytes], answers: IO[bytes]) -> None:
    """Run jobs until the parent closes the pipe."""
    import importlib

    module, qualname, index = _take(commands)
    try:
        place: Any = importlib.import_module(module)
        for part in qualname.split("."):
            place = getattr(place, part)
        device = place().open(index)
    except Exception as cause:
        _send(answers, ("error", f"{type(cause).__name__}: {cause}"))
        return
    _send(answers, ("ready", None))
    while True:
        try:
            job = _take(commands)
        except EOFError:
            return
        try:
            _send(answers, ("done", run_job(device, job)))
        except Exception as cause:
            _send(answers, ("error", f"{type(cause).__name__}: {cause}"))


def _take(pipe: IO[bytes]) -> Any:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return pickle.loads(pipe.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - sent by the parent


def _main() -> None:
    # Ctrl-C is the parent's to handle: it closes the pipe, and this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # A kernel that prints must not write into the answers.
    os.dup2(2, 1)
    with contextlib.suppress(EOFError, _Gone):
        _serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
