"""The device half: this machine, opened."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel, TimerTier
from xpu_backend_cpu import memory
from xpu_backend_cpu.foreign import ForeignLoad
from xpu_backend_cpu.limits import allowed_cpus
from xpu_backend_cpu.machine import Machine
from xpu_backend_cpu.pool import Pool
from xpu_backend_cpu.timer import HostTimer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


class CpuKernel(LoadedKernel):
    """A kernel in this process: addresses of its functions, and its number of phases."""

    def __init__(self, entry: str, address: int, scratch: int, phases: int) -> None:
        self.entry = entry
        self.address = address
        self.scratch = scratch
        self.phases = phases


class CpuDevice(Device):
    """The host's processor with its pool of workers."""

    def __init__(self, machine: Machine, pool: Pool) -> None:
        self.facts = machine.facts()
        self._machine = machine
        self._pool = pool
        self._workers = machine.workers
        self._foreign = ForeignLoad(allowed_cpus())
        self._timer: HostTimer | None = None

    def load(self, code: Path, entry: str) -> CpuKernel:
        """Load a shared object and look its entry up.

        Raises
        ------
        XpuLaunchException
            It is no shared object for this machine, or does not define the entry.
        """
        try:
            library = ctypes.CDLL(str(code))
            address = _address(library, entry)
        except (OSError, AttributeError) as error:
            raise XpuLaunchException(
                f"kernel {entry!r} cannot be loaded from {code}: {error}; remove that file and "
                "build it again"
            ) from error
        try:
            phases = ctypes.c_int32.in_dll(library, f"{entry}_phases").value
        except ValueError:
            phases = 1
        try:
            scratch = _address(library, f"{entry}_scratch")
        except AttributeError:
            scratch = 0
        return CpuKernel(entry, address, scratch, phases)

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a caller's array without a copy; see `memory.import_array`."""
        return memory.import_array(value, writable=writable)

    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        """Return fresh memory as an uint8 array; from 2 MiB on in huge pages, where there are."""
        array = memory.allocate(nbytes)
        if poisoned:
            self.poison(array)
        return array

    def from_host(self, array: Array) -> DeviceArray:
        """Copy an array to fresh aligned memory."""
        fresh = memory.allocate(array.nbytes)
        taken = DeviceArray(fresh.address, array.shape, array.dtype.name, fresh.owner)
        memory.host_view(taken)[...] = array
        return taken

    def to_host(self, array: DeviceArray) -> Array:
        """Copy memory to a fresh numpy array."""
        return memory.host_view(array).copy()

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size."""
        ctypes.memmove(destination.address, source.address, source.nbytes)

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes."""
        ctypes.memset(array.address, 0xFF, array.nbytes)

    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack one launch on all workers, a `MovableLaunch`; it returns when the work is done.

        Raises
        ------
        XpuLaunchException
            The kernel was loaded by another backend. Each call of the result raises it
            when the kernel's scratch memory cannot be had; nothing was run then.
        """
        if not isinstance(kernel, CpuKernel):
            raise XpuLaunchException(
                f"kernel {kernel.entry!r} was not loaded by this backend; nothing was launched"
            )
        # The layout of xpu_plan in runtime/pool.c.
        words = _words(5 + len(buffers) + len(sizes))(
            kernel.address,
            kernel.scratch,
            kernel.phases,
            self._workers,
            len(buffers),
            *[buffer.address for buffer in buffers],
            *sizes,
        )
        plan = ctypes.byref(words)
        addresses = _words(len(buffers)).from_buffer(words, 5 * 8)  # past the first five
        run = self._pool.launch
        cleared_bytes = buffers[-1].nbytes if launch.clears_result else 0

        def call() -> None:
            if cleared_bytes:
                ctypes.memset(addresses[-1], 0, cleared_bytes)
            if run(plan):
                raise XpuLaunchException(
                    f"kernel {kernel.entry!r}: its scratch memory cannot be had for sizes "
                    f"{tuple(sizes)}; free memory, or choose a smaller problem; "
                    "nothing was launched"
                )

        return _movable(call, addresses)

    def synchronize(self) -> None:
        """Return at once: a launch ends before its call does."""

    def timer(self) -> TimerTier:
        """Return the host's clock, calibrated at the first call."""
        if self._timer is None:
            nothing = CpuKernel("nothing", self._pool.nothing, 0, 0)
            self._timer = HostTimer(self.launcher(nothing, Launch(), (), ()))
        return self._timer

    def foreign_load(self) -> float | None:
        """Return the share of the usable processors that other processes hold."""
        return self._foreign.share()

    def identity(self) -> Mapping[str, str]:
        """Return processor, kernel release, worker count and power mode."""
        return self._machine.identity()


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


def _movable(call: Any, addresses: ctypes.Array[ctypes.c_int64]) -> Callable[[], None]:
    """Make a `MovableLaunch` of a function: an object with attributes is called slower."""
    call.addresses, call.is_recordable = addresses, False
    return cast("Callable[[], None]", call)


@functools.cache
def _words(count: int) -> type[ctypes.Array[ctypes.c_int64]]:
    return ctypes.c_int64 * count
