"""The child's side of a worker process: ``python -m xpu.choice.worker_child``.

It makes the backend anew by calling its class, opens the device, and runs jobs until the
parent closes the pipe. Nothing imports this module.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import sys
from typing import IO, TYPE_CHECKING, Any, Final

from xpu.choice.fault import MemberFault
from xpu.choice.job import run_job
from xpu.choice.worker import LENGTH, Gone, send
from xpu.registry import guarded

if TYPE_CHECKING:
    from xpu.spec import Backend, Device

_GRACE_S: Final = 1.0
"""Seconds past the deadline after which a job ends its process: the parent's turn is first."""


def _serve(commands: IO[bytes], answers: IO[bytes]) -> None:
    """Run jobs until the parent closes the pipe."""
    module, qualname, index, owner, runtime = _take(commands)
    try:
        place: Any = importlib.import_module(module)
        for part in qualname.split("."):
            place = getattr(place, part)
        backend: Backend = guarded(place(), owner)
        device = (backend if runtime is None else backend.prebuilt(runtime)).open(index)
    except Exception as cause:
        send(answers, ("error", _told(cause)))
        return
    send(answers, ("ready", None))
    while True:
        try:
            deadline_s, job = _take(commands)
        except EOFError:
            return
        # A parent that was killed cannot end a kernel that does not end. This signal's
        # default does, whatever code is running.
        signal.setitimer(signal.ITIMER_REAL, deadline_s + _GRACE_S)
        try:
            send(answers, ("done", run_job(device, job)))
        except Exception as cause:
            status = "error" if _still_works(device) else "lost"
            send(answers, (status, _told(cause)))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)


def _still_works(device: Device) -> bool:
    """Whether a fault has left the device usable: after some, nothing in the process works."""
    try:
        device.synchronize()
    except Exception:
        return False
    return True


def _told(cause: Exception) -> str:
    return MemberFault.of(cause, "failed").note


def _take(pipe: IO[bytes]) -> Any:
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    return pickle.loads(pipe.read(LENGTH.unpack(head)[0]))  # noqa: S301 - sent by the parent


def _main() -> None:
    # Ctrl-C is the parent's to handle: it closes the pipe, and this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the parent ignores or blocks would stay so here.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    answers = os.fdopen(os.dup(1), "wb")
    # A kernel that prints must not write into the answers.
    os.dup2(2, 1)
    with contextlib.suppress(EOFError, Gone):
        _serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
