"""A device as threads of this process use it: the one that is current in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from xpu.errors import XpuLaunchException
from xpu_backend_hip.calls import Calls
from xpu_backend_hip.driver import bindings, checked, device_count, started

RELAXED: Final = 2
"""Source: hipStreamCaptureModeRelaxed of hip_runtime_api.h."""


class Context:
    """One device. The runtime has one context for it, which torch and CuPy use, too.

    Memory and code refer to this object, so it outlives them whatever is closed first.

    Parameters
    ----------
    index
        Number of the device.

    Attributes
    ----------
    hip
        The runtime's functions.
    names
        Its constants: hip-python's module.
    is_only
        Whether there is no other device, so that this one is current everywhere.

    Raises
    ------
    XpuLaunchException
        There is no such device, or it cannot be used.
    """

    def __init__(self, index: int) -> None:
        self.hip: Calls = started()
        self.names: Any = bindings()
        count = device_count()
        if not 0 <= index < count:
            raise XpuLaunchException(
                f"backend 'hip' has {count} devices, numbers from 0; asked for {index}"
            )
        self.index = index
        self.is_only = count == 1
        self._process = os.getpid()
        with self.current():  # a device that cannot be used says so here
            pass

    @contextmanager
    def current(self) -> Iterator[Calls]:
        """Have the device current in this thread, and leave the thread as it was found.

        While it is, the thread may do what a capture elsewhere would otherwise forbid it:
        nothing that is done here belongs to anybody's capture.
        """
        hip = self.hip
        what = f"device {self.index} cannot be used"
        before = checked(hip.hipGetDevice(), what)
        if before != self.index:
            checked(hip.hipSetDevice(self.index), what)
        try:
            mode = checked(hip.hipThreadExchangeStreamCaptureMode(RELAXED), what)
            try:
                yield hip
            finally:
                hip.hipThreadExchangeStreamCaptureMode(mode)
        finally:
            if before != self.index:
                hip.hipSetDevice(before)

    def is_current(self) -> bool:
        """Whether what goes to a default stream of this thread goes to this device."""
        return self.is_only or self.hip.hipGetDevice() == (0, self.index)

    def quietly(self, call: Callable[[Calls], Any]) -> None:
        """Do something in a finalizer: nothing is raised, and nothing done in a forked child."""
        if os.getpid() != self._process:
            return
        try:
            with self.current():
                call(self.hip)
        except Exception:
            # A lost context has lost what was to be given back, too, and nobody could be told.
            return
