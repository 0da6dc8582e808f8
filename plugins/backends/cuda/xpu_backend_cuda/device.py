"""The device half: one GPU, opened on its primary context."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel, host_dtype
from xpu_backend_cuda.arrays import import_array
from xpu_backend_cuda.blas import CudaRoutine
from xpu_backend_cuda.context import Context
from xpu_backend_cuda.driver import checked
from xpu_backend_cuda.facts import bus_id, facts_of
from xpu_backend_cuda.kernel import CudaKernel, Modules
from xpu_backend_cuda.launch import DEFAULT_STREAMS, LEGACY_STREAM, packed, stream_number
from xpu_backend_cuda.memory import Pool
from xpu_backend_cuda.nvml import Nvml
from xpu_backend_cuda.timer import EventTimer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_POISON: Final = 0xFF
_CAPTURE_IMPLICIT: Final = 906
"""Source: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT of cuda.h: a stream that this one waits for."""


@attrs.frozen(eq=False)
class _Open:
    """What an open device has; it goes when the device is closed."""

    context: Context
    pool: Pool
    modules: Modules
    timers: list[EventTimer] = attrs.field(factory=list)
    routines: dict[str, CudaRoutine] = attrs.field(factory=dict)

    def wait(self) -> None:
        # A kernel may still run; when that failed there is nothing left to wait for.
        self.context.quietly(lambda cu: cu.cuCtxSynchronize())

    def give_back(self) -> None:
        # Also a finalizer, at any moment: to wait for the context would end a capture that
        # somebody has under way. The driver itself lets work end that uses what it frees.
        for timer in self.timers:
            timer.close()
        self.routines.clear()
        self.pool.close()
        self.modules.clear()


class CudaDevice(Device):
    """One GPU. Several may be open, each any number of times; all share the primary context.

    Copies and poison are queued on the legacy stream, where launches without a stream go.

    Parameters
    ----------
    index
        Its number, in the driver's order.

    Raises
    ------
    XpuLaunchException
        There is no such device, or it cannot be used.
    """

    def __init__(self, index: int) -> None:
        context = Context(index)
        self.facts = facts_of(index)
        self._nvml = Nvml(bus_id(context.cu, context.device))
        self._power_w = self._nvml.power_limit_w()
        self._lock = threading.Lock()
        self._open: _Open | None = _Open(
            context, Pool(context, self.facts.memory_bytes or 0), Modules(context, self.facts)
        )
        # Called once, by `close` or when nobody has the device any more.
        self._close = weakref.finalize(self, self._open.give_back)
        self._close.atexit = False

    @property
    def context(self) -> Context:
        """The primary context.

        Raises
        ------
        XpuLaunchException
            The device was closed.
        """
        return self._opened().context

    def load(self, code: Path, entry: str) -> CudaKernel:
        """Load a code object, once for all that have the same content.

        Raises
        ------
        XpuLaunchException
            It is no code for this device, or does not define the entry.
        """
        return self._opened().modules.load(code, entry)

    def routine(self, name: str) -> CudaRoutine:
        """Return a routine of cuBLAS, the same one at every call.

        Raises
        ------
        XpuLaunchException
            There is no such routine, or no cuBLAS.
        """
        with self._lock:
            one = self._opened()
            if name not in one.routines:
                one.routines[name] = CudaRoutine(name, one.context, one.pool.allocate)
            return one.routines[name]

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
            with self.context.current() as cu:
                result = cu.cuMemcpyHtoD(fresh.address, given.ctypes.data, given.nbytes)
                checked(result, what)
                # The call returns when the host's memory is read, not when the device's is written.
                checked(cu.cuStreamSynchronize(LEGACY_STREAM), what)
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
            with self.context.current() as cu:
                checked(cu.cuMemcpyDtoH(fresh.ctypes.data, array.address, fresh.nbytes), what)
        return fresh

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size; queued on the legacy stream."""
        if not source.nbytes:
            return
        with self.context.current() as cu:
            result = cu.cuMemcpyDtoDAsync(
                destination.address, source.address, source.nbytes, LEGACY_STREAM
            )
            checked(result, f"{source.nbytes} bytes cannot be copied on the device")

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes; queued on the legacy stream."""
        if not array.nbytes:
            return
        with self.context.current() as cu:
            result = cu.cuMemsetD8Async(array.address, _POISON, array.nbytes, LEGACY_STREAM)
            checked(result, f"{array.nbytes} bytes cannot be filled")

    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack one launch; see `launch.packed` and, of a library, `CudaRoutine.packed`."""
        if isinstance(kernel, CudaRoutine) and kernel.context.index == self.context.index:
            return kernel.packed(buffers, sizes, stream)
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
        with one.context.current() as cu:
            checked(cu.cuCtxSynchronize(), "what was queued on the device did not end well")
        one.pool.settle(returned)

    def is_capturing(self, stream: Any = None) -> bool:
        """Whether a stream is being captured, or waits for one that is."""
        cu, number = self.context.cu, stream_number(stream)
        code, status = 0, None
        if number not in DEFAULT_STREAMS:  # a third of the time: it knows its context
            code, status = cu.cuStreamIsCapturing(number)
        if code or status is None:
            with self.context.current():
                code, status = cu.cuStreamIsCapturing(number)
        if code == _CAPTURE_IMPLICIT:
            return True
        checked((code,), "a stream does not say whether it is captured")
        return bool(status != cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    def timer(self) -> EventTimer:
        """Return the event clock; it is calibrated at its first bracket."""
        with self._lock:
            one = self._opened()
            if not one.timers:
                one.timers.append(EventTimer(one.context, self._nvml))
            return one.timers[0]

    def queue_ns(self) -> float:
        """Measure the nanoseconds from work on one stream to work on another that waits for it."""
        return self.timer().queue_ns()

    def foreign_load(self) -> float | None:
        """Return the share of the device's time that other processes have; None if unknown."""
        return self._nvml.foreign_share()

    def identity(self) -> Mapping[str, str]:
        """Return device, driver, and the power limit where one is set."""
        found = super().identity()
        return found if self._power_w is None else {**found, "power": f"{self._power_w} W"}

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
