"""The device half: the emulated part, opened."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xpu.errors import XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel, TimerTier
from xpu_backend_emulator import code as objects
from xpu_backend_emulator import library, memory
from xpu_backend_emulator.arena import ARENA, STACK_BYTES
from xpu_backend_emulator.faults import message
from xpu_backend_emulator.timer import EmulatorTimer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_MOST_THREADS: Final = 1024


class EmulatorKernel(LoadedKernel):
    """A kernel in this process."""

    def __init__(self, entry: str, code: objects.Code) -> None:
        self.entry = entry
        self.code = code


class EmulatorDevice(Device):
    """An emulated part; it runs one launch at a time, on the calling thread."""

    def __init__(self, facts: DeviceFacts) -> None:
        self.facts = facts

    def load(self, code: Path, entry: str) -> EmulatorKernel:
        """Load a shared object and look its entry up.

        Raises
        ------
        XpuLaunchException
            It is no shared object for this machine, or does not define the entry.
        """
        try:
            return EmulatorKernel(entry, objects.load(code, entry))
        except (OSError, ValueError) as error:
            raise XpuLaunchException(
                f"kernel {entry!r} cannot be loaded from {code}: {error}; remove that file and "
                "build it again"
            ) from error

    def routine(self, name: str) -> library.EmulatorRoutine:
        """Return a routine of the host's library.

        Raises
        ------
        XpuLaunchException
            There is no such routine.
        """
        return library.EmulatorRoutine(name)

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a caller's array without a copy; see `memory.import_array`."""
        return memory.import_array(value, writable=writable)

    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        """Return fresh memory as an uint8 array; reading it before it is written is a fault."""
        array = memory.allocate(nbytes)
        if poisoned:
            memory.poison(array)
        return array

    def from_host(self, array: Array) -> DeviceArray:
        """Copy an array to fresh memory."""
        fresh = memory.allocate(array.nbytes)
        taken = DeviceArray(fresh.address, array.shape, array.dtype.name, fresh.owner)
        memory.host_view(taken)[...] = array
        fresh.owner.written[:] = 1
        return taken

    def to_host(self, array: DeviceArray) -> Array:
        """Copy memory to a fresh numpy array."""
        return memory.host_view(array).copy()

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size."""
        memory.copy(source, destination)

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes; reading it before it is written is a fault."""
        memory.poison(array)

    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack one launch; it returns when the last block has ended.

        Raises
        ------
        XpuLaunchException
            The part cannot make this launch. Each call of the result raises it for the
            first fault that a check finds; the launch is over then.
        """
        if isinstance(kernel, library.EmulatorRoutine):
            return library.packed(kernel, buffers, sizes)
        if not isinstance(kernel, EmulatorKernel):
            raise XpuLaunchException(
                f"kernel {kernel.entry!r} was not loaded by this backend; nothing was launched"
            )
        code = kernel.code
        complaint = self._complaint(code, launch, len(buffers), len(sizes))
        if complaint:
            raise XpuLaunchException(
                f"kernel {kernel.entry!r} cannot be launched: {complaint}; nothing was launched"
            )
        record, fault = _record(code, launch, buffers, sizes)
        run, base = code.descriptor.run, code.base
        cleared = buffers[-1] if launch.clears_result else None

        def call() -> None:
            with ARENA.lock:
                if cleared is not None:
                    memory.clear(cleared)
                _equip(record, code)
                fault.check = 0
                run(base, record)
                text = message(kernel.entry, code, fault) if fault.check else ""
            if text:
                raise XpuLaunchException(text)

        return call

    def synchronize(self) -> None:
        """Return at once: a launch ends before its call does."""

    def timer(self) -> TimerTier:
        """Return the host's clock; what it reads says nothing about a real part."""
        return EmulatorTimer()

    def foreign_load(self) -> float | None:
        """Return 0: nobody else uses an emulated part. The times mean nothing either way."""
        return 0.0

    def _complaint(self, code: objects.Code, launch: Launch, buffers: int, sizes: int) -> str:
        """Say what a part with these facts would refuse; the empty text when nothing."""
        facts, descriptor = self.facts, code.descriptor
        if (buffers, sizes) != (descriptor.buffers, descriptor.sizes):
            return (
                f"it takes {descriptor.buffers} arrays and {descriptor.sizes} sizes "
                f"({descriptor.parameters.decode()}), given {buffers} and {sizes}"
            )
        threads = _threads(code, launch)
        pinned = descriptor.threads
        if not 1 <= threads <= pinned:
            return f"the block is {launch.block}, it was compiled for at most {pinned} threads"
        most = min(facts.max_threads_per_block or _MOST_THREADS, _MOST_THREADS)
        if threads > most:
            return f"the block has {threads} threads, the part allows {most}"
        for size, axis in zip(launch.grid, "xyz", strict=True):
            limit = facts.get(f"max_grid_{axis}") or 2**31 - 1
            if not 0 <= size <= limit:
                return f"the grid has {size} blocks along {axis}, the part allows {limit}"
        if launch.dynamic_shared_bytes < 0:
            return f"it asks for {launch.dynamic_shared_bytes} bytes of dynamic shared memory"
        shared = code.static_shared_bytes + launch.dynamic_shared_bytes
        limits = (facts.shared_bytes_per_block, facts.shared_bytes_per_block_optin)
        known = [limit for limit in limits if limit is not None]
        if known and shared > max(known):
            return f"the block needs {shared} bytes of shared memory, the part allows {max(known)}"
        return ""


def _threads(code: objects.Code, launch: Launch) -> int:
    return code.descriptor.threads if launch.block is None else math.prod(launch.block)


def _record(
    code: objects.Code, launch: Launch, buffers: Sequence[DeviceArray], sizes: Sequence[int]
) -> tuple[objects.LaunchRecord, objects.Fault]:
    """Lay a launch out as the runtime reads it; ctypes keeps what it points to."""
    taken = (objects.Buffer * max(len(buffers), 1))()
    for place, array, name in zip(taken, buffers, code.names, strict=False):
        notes = memory.written(array) if array.nbytes else None
        place.base, place.nbytes = array.address, array.nbytes
        place.written = None if notes is None else notes.ctypes.data
        place.name = name.encode()
    fault = objects.Fault()
    record = objects.LaunchRecord(
        buffers=taken,
        sizes=(ctypes.c_int64 * max(len(sizes), 1))(*sizes),
        grid=launch.grid,
        threads=_threads(code, launch),
        stack_bytes=STACK_BYTES,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        result=ctypes.pointer(fault),
    )
    return record, fault


def _equip(record: objects.LaunchRecord, code: objects.Code) -> None:
    """Give a launch the memory that it runs in. The arena's lock is held."""
    threads = record.threads
    shared = code.static_shared_bytes + record.dynamic_shared_bytes + 16
    record.stacks = ARENA.stacks(threads)
    record.threads_memory = ARENA.area("threads", threads * code.descriptor.thread_bytes)
    record.shared = ARENA.area("shared", shared)
    record.cells = ARENA.area("cells", shared * objects.CELL_BYTES, is_cleared=True)
    record.flights = ARENA.area("flights", shared // 4 * objects.FLIGHT_BYTES)
