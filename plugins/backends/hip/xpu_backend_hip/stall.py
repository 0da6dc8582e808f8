"""Holds a stream until the host lets it go, so that launches queue up behind it.

No code of the device is needed for that: the runtime calls a function of the C library in the
queue, which waits for a semaphore. So the clock needs no compiler, and is the same for every
part. A hold ends by itself when its time is up, by a thread that waits meanwhile: a host that
waits for the device while it should let go can never hang it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Final

from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked

_SEMAPHORE_BYTES: Final = 64
"""More than a ``sem_t`` has. Source: semaphore.h of glibc (32 bytes) and of musl (32 bytes)."""
_WORD_BYTES: Final = 4


class Stall:
    """Holds streams of one device, one at a time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        system = ctypes.CDLL(None)
        self._post: Any = system.sem_post
        self._wait = _address(system.sem_wait)
        self._sleep = _address(system.usleep)
        self._memory = ctypes.create_string_buffer(_SEMAPHORE_BYTES)
        self._semaphore = ctypes.c_void_p(ctypes.addressof(self._memory))
        system.sem_init(self._semaphore, 0, 0)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._is_held = False
        self.was_late = False
        """Whether the last hold ended before its release."""
        with context.current() as hip:
            what = "memory of the device cannot be had"
            self._word = int(checked(hip.hipMalloc(_WORD_BYTES), what))

    def hold(self, stream: int, limit_ns: int) -> None:
        """Hold a stream until `release`, at most `limit_ns`. The device is current."""
        result = self._context.hip.hipLaunchHostFunc(stream, self._wait, self._semaphore)
        checked(result, "a stream cannot be held")
        self.was_late, self._is_held = False, True
        self._timer = threading.Timer(limit_ns / 1e9, self._too_late)
        self._timer.daemon = True
        self._timer.start()

    def release(self) -> None:
        """Let the stream go."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self._let_go(is_late=False)

    def pause(self, stream: int, duration_ns: int) -> None:
        """Queue a pause, by the host's clock. The device is current."""
        result = self._context.hip.hipLaunchHostFunc(stream, self._sleep, duration_ns // 1000)
        checked(result, "a pause cannot be queued")

    def nothing(self, stream: int) -> None:
        """Queue the least that a launch can be, a word of memory set. The device is current."""
        result = self._context.hip.hipMemsetD8Async(self._word, 0, _WORD_BYTES, stream)
        checked(result, "a word of memory cannot be set")

    def close(self) -> None:
        """Give memory back; no stream is held."""
        self._context.quietly(lambda hip: hip.hipFree(self._word))

    def _too_late(self) -> None:
        self._let_go(is_late=True)

    def _let_go(self, *, is_late: bool) -> None:
        """Release the stream if it is held."""
        with self._lock:
            if self._is_held:
                # Before the stream goes: whoever waits for it looks at this next.
                self.was_late, self._is_held = is_late, False
                self._post(self._semaphore)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
