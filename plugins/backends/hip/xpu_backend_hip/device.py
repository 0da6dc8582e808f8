"""The device half: one GPU, opened."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel, host_dtype
from xpu_backend_hip.arrays import import_array
from xpu_backend_hip.context import Context
from xpu_backend_hip.driver import checked
from xpu_backend_hip.facts import bus_id, facts_of
from xpu_backend_hip.kernel import HipKernel, Modules
from xpu_backend_hip.launch import DEFAULT_STREAMS, LEGACY_STREAM, packed, stream_number
from xpu_backend_hip.memory import Pool
from xpu_backend_hip.sysfs import Sysfs
from xpu_backend_hip.timer import EventTimer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_POISON: Final = 0xFF
_NOT_CAPTURING: Final = 0
"""Source: hipStreamCaptureStatusNone of hip_runtime_api.h."""
_CAPTURE_IMPLICIT: Final = 906
"""Source: hipErrorStreamCaptureImplicit of hip_runtime_api.h: a stream that this one waits for."""


@attrs.frozen(eq=False)
class _Open:
    """What an open device has; it goes when the device is closed."""

    context: Context
    pool: Pool
    modules: Modules
    timers: list[EventTimer] = attrs.field(factory=list)

    def wait(self) -> None:
        # A kernel may still run; when that failed there is nothing left to wait for.
        self.context.quietly(lambda hip: hip.hipDeviceSynchronize())

    def give_back(self) -> None:
        # Also a finalizer, at any moment: to wait for the device would end a capture that
        # somebody has under way. The runtime itself lets work end that uses what it frees.
        for timer in self.timers:
            timer.close()
        self.pool.close()
        self.modules.clear()


class HipDevice(Device):
    """One GPU. Several may be open, each any number of times.

    Copies and poison are queued on the legacy stream, where launches without a stream go.

    Parameters
    ----------
    index
        Its number, in the runtime's order.

    Raises
    ------
    XpuLaunchException
        There is no such device, or it cannot be used.
    """

    def __init__(self, index: int) -> None:
        context = Context(index)
        self.facts = facts_of(index)
        self._sysfs = Sysfs(bus_id(context.hip, index))
        self._power = self._sysfs.power_mode()
        self._lock = threading.Lock()
        self._open: _Open | None = _Open(
            context, Pool(context, self.facts.memory_bytes or 0), Modules(context, self.facts)
        )
        # Called once, by `close` or when nobody has the device any more.
        self._close = weakref.finalize(self, self._open.give_back)
        self._close.atexit = False

    @property
    def context(self) -> Context:
        """The device as it is used.

        Raises
        ------
        XpuLaunchException
            The device was closed.
        """
        return self._opened().context

    def load(self, code: Path, entry: str) -> HipKernel:
        """Load a code object, once for all that have the same content.

        Raises
        ------
        XpuLaunchException
            It is no code for this device, or does not define the entry.
        """
        return self._opened().modules.load(code, entry)

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a caller's array without a copy; see `arrays.import_array`."""
        return import_array(self.context, value, writable=writable)

    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        """Return fresh memory as an uint8 array, aligned to 256 bytes."""
        array = self._opened().pool.allocate(nbytes)
        if poisoned:
            self.poison(array)
        return array

    def from_host(self, array: Array) -> DeviceArray:
        """Copy an array to fresh memory; any stream may read it when this returns."""
        import numpy as np

        given = np.asarray(array.astype(array.dtype.newbyteorder("="), copy=False), order="C")
        fresh = self.allocate(given.nbytes)
        if given.nbytes:
            what = f"{given.nbytes} bytes cannot be copied to the device"
            with self.context.current() as hip:
                result = hip.hipMemcpyHtoD(fresh.address, given.ctypes.data, given.nbytes)
                checked(result, what)
                # The call returns when the host's memory is read, not when the device's is written.
                checked(hip.hipStreamSynchronize(LEGACY_STREAM), what)
        return DeviceArray(fresh.address, given.shape, given.dtype.name, fresh.owner)

    def to_host(self, array: DeviceArray) -> Array:
        """Copy memory to a fresh numpy array; a type that numpy lacks comes as its bits."""
        import numpy as np

        try:
            dtype = host_dtype(array.dtype)
        except TypeError:  # one that numpy has not, of 8 bits
            dtype = np.dtype("uint8")
        fresh: Array = np.empty(array.shape, dtype)
        if fresh.nbytes:
            what = f"{fresh.nbytes} bytes cannot be copied from the device"
            with self.context.current() as hip:
                checked(hip.hipMemcpyDtoH(fresh.ctypes.data, array.address, fresh.nbytes), what)
        return fresh

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size; queued on the legacy stream."""
        if not source.nbytes:
            return
        with self.context.current() as hip:
            result = hip.hipMemcpyDtoDAsync(
                destination.address, source.address, source.nbytes, LEGACY_STREAM
            )
            checked(result, f"{source.nbytes} bytes cannot be copied on the device")

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes; queued on the legacy stream."""
        if not array.nbytes:
            return
        with self.context.current() as hip:
            result = hip.hipMemsetD8Async(array.address, _POISON, array.nbytes, LEGACY_STREAM)
            checked(result, f"{array.nbytes} bytes cannot be filled")

    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack one launch; see `launch.packed`."""
        return packed(self.context, kernel, launch, buffers, sizes, stream)

    def synchronize(self) -> None:
        """Wait until all work on the device that this process has queued is done.

        Raises
        ------
        XpuLaunchException
            Something that was queued before has failed.
        """
        one = self._opened()
        returned = one.pool.returned()
        with one.context.current() as hip:
            checked(hip.hipDeviceSynchronize(), "what was queued on the device did not end well")
        one.pool.settle(returned)

    def is_capturing(self, stream: Any = None) -> bool:
        """Whether a stream is being captured, or waits for one that is."""
        context, number = self.context, stream_number(stream)
        if number in DEFAULT_STREAMS:
            with context.current() as hip:
                code, status = hip.hipStreamIsCapturing(number)
        else:  # it knows its device
            code, status = context.hip.hipStreamIsCapturing(number)
        if code == _CAPTURE_IMPLICIT:
            return True
        checked((code,), "a stream does not say whether it is captured")
        return bool(status != _NOT_CAPTURING)

    def timer(self) -> EventTimer:
        """Return the event clock; it is calibrated at its first bracket."""
        with self._lock:
            one = self._opened()
            if not one.timers:
                one.timers.append(EventTimer(one.context, self._sysfs))
            return one.timers[0]

    def queue_ns(self) -> float:
        """Measure the nanoseconds from work on one stream to work on another that waits for it."""
        return self.timer().queue_ns()

    def foreign_load(self) -> float | None:
        """Return the share of the device's time that other processes have; None if unknown."""
        return self._sysfs.foreign_share()

    def identity(self) -> Mapping[str, str]:
        """Return device, driver, and power limit and mode where they can be read."""
        found = super().identity()
        return {**found, "power": self._power} if self._power else found

    def trim(self) -> None:
        """Free memory that is kept for later; a device that was closed keeps none."""
        one = self._open
        if one is not None:
            one.pool.trim()

    def close(self) -> None:
        """Give everything back but what callers still hold: their arrays stay valid."""
        one, self._open = self._open, None
        if one is not None:
            one.wait()
            one.pool.trim()  # a finalizer would leave what another thread has in hand
        self._close()

    def _opened(self) -> _Open:
        if self._open is None:
            raise XpuLaunchException(f"{self.facts.name} was closed; open it again")
        return self._open
