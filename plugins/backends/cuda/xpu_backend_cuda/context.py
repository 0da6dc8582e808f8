"""A device's primary context: the one that the CUDA runtime, torch, CuPy and JAX share."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xpu.errors import XpuLaunchException
from xpu_backend_cuda.driver import checked, device_count, started


class Context:
    """The primary context of one device, held for as long as this object lives.

    Memory and code refer to it, so it outlives them whatever is closed first.

    Parameters
    ----------
    index
        Number of the device.

    Raises
    ------
    XpuLaunchException
        There is no such device, or it has no room for a context.
    """

    def __init__(self, index: int) -> None:
        self.cu = cu = started()
        count = device_count()
        if not 0 <= index < count:
            raise XpuLaunchException(
                f"backend 'cuda' has {count} devices, numbers from 0; asked for {index}"
            )
        self.index = index
        self.device = checked(cu.cuDeviceGet(index), f"device {index} cannot be had")
        self.handle = checked(
            cu.cuDevicePrimaryCtxRetain(self.device), f"device {index} gives no context"
        )
        self._process = os.getpid()
        self._relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        release = weakref.finalize(self, _release, cu, self.device, self._process)
        release.atexit = False  # the driver gives everything back when the process ends

    @contextmanager
    def current(self) -> Iterator[Any]:
        """Have the context current in this thread, and leave the thread as it was found.

        While it is, the thread may do what a capture elsewhere would otherwise forbid it:
        nothing that is done here belongs to anybody's capture.
        """
        cu = self.cu
        what = f"device {self.index} cannot be used"
        checked(cu.cuCtxPushCurrent(self.handle), what)
        try:
            before = checked(cu.cuThreadExchangeStreamCaptureMode(self._relaxed), what)
            try:
                yield cu
            finally:
                cu.cuThreadExchangeStreamCaptureMode(before)
        finally:
            cu.cuCtxPopCurrent()

    def quietly(self, call: Callable[[Any], Any]) -> None:
        """Do something in a finalizer: nothing is raised, and nothing done in a forked child."""
        if os.getpid() != self._process:
            return
        try:
            with self.current():
                call(self.cu)
        except Exception:
            # A lost context has lost what was to be given back, too, and nobody could be told.
            return


def _release(cu: Any, device: Any, process: int) -> None:
    if os.getpid() == process:
        cu.cuDevicePrimaryCtxRelease(device)
