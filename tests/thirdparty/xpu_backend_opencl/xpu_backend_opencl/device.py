"""The device half: one OpenCL device, opened."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyopencl as cl

from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel, TimerTier
from xpu_backend_opencl.facts import facts_of
from xpu_backend_opencl.memory import HostMemory, Memory, memory_of
from xpu_backend_opencl.timer import timer_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_GROUP: Final = 64
_ZERO: Final = np.zeros(1, np.uint8)
"""Work-items of a group where neither launch nor kernel states it."""


class OpenClKernel(LoadedKernel):
    """A program of one kernel."""

    def __init__(self, entry: str, program: cl.Program, group: tuple[int, int, int]) -> None:
        self.entry = entry
        self.program = program
        self.group = group


class _Recorder(threading.local):
    """The events of this thread's bracket; None outside of one."""

    events: list[cl.Event] | None = None


class OpenClDevice(Device):
    """A device with one in-order queue.

    Parameters
    ----------
    device
        The driver's device.
    memory
        Makes its memory; tests give another one.
    """

    def __init__(
        self, device: cl.Device, memory: Callable[[cl.CommandQueue], Memory] = memory_of
    ) -> None:
        self.facts = facts_of(device)
        self._device = device
        self._context = cl.Context([device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, device, profiling)
        self._memory = memory(self._queue)
        self._is_host = isinstance(self._memory, HostMemory)
        self._recorder = _Recorder()
        self._timer: TimerTier | None = None

    def load(self, code: Path, entry: str) -> OpenClKernel:
        """Load a program's binary.

        Raises
        ------
        XpuLaunchException
            The driver does not take it, or it has no such kernel.
        """
        try:
            program = cl.Program(self._context, [self._device], [code.read_bytes()])
            with warnings.catch_warnings(action="ignore"):  # a build log that is not empty
                program.build()
            asked = cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE
            stated: Any = cl.Kernel(program, entry).get_work_group_info(asked, self._device)
        except (OSError, cl.Error) as error:
            raise XpuLaunchException(
                f"kernel {entry!r} cannot be loaded from {code}: {error}; remove that file and "
                "build it again"
            ) from error
        return OpenClKernel(entry, program, tuple(stated) if all(stated) else (_GROUP, 1, 1))

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a caller's array without a copy; see `memory`."""
        return self._memory.import_array(value, writable=writable)

    def allocate(self, nbytes: int, *, poisoned: bool = False) -> DeviceArray:
        """Return fresh memory as an uint8 array.

        Raises
        ------
        XpuLaunchException
            The device has none left.
        """
        with _named(f"{nbytes} bytes cannot be had"):
            array = self._memory.allocate(nbytes)
        if poisoned:
            self.poison(array)
        return array

    def from_host(self, array: Array) -> DeviceArray:
        """Copy a host array to fresh memory."""
        with _named(f"{array.nbytes} bytes cannot be copied to the device"):
            return self._memory.from_host(array)

    def to_host(self, array: DeviceArray) -> Array:
        """Copy memory to a fresh host array."""
        with _named(f"{array.nbytes} bytes cannot be copied from the device"):
            return self._memory.to_host(array)

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size."""
        with _named(f"{source.nbytes} bytes cannot be copied"):
            self._memory.copy(source, destination)

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes."""
        with _named(f"{array.nbytes} bytes cannot be filled"):
            self._memory.poison(array)

    def launcher(
        self,
        kernel: LoadedKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
        stream: Any = None,
    ) -> Callable[[], None]:
        """Pack one launch; `stream` is a ``pyopencl.CommandQueue`` of the caller's, or None.

        Without a stream a launch in host memory returns when the work is done.

        Raises
        ------
        XpuLaunchException
            The kernel is another backend's, or the driver refuses an argument or the launch.
        """
        if not isinstance(kernel, OpenClKernel):
            raise XpuLaunchException(f"kernel {kernel.entry!r} was not loaded by this backend")
        if stream is not None and not isinstance(stream, cl.CommandQueue):
            raise XpuLaunchException(f"a stream is a pyopencl.CommandQueue, not {stream!r}")
        queue = self._queue if stream is None else stream
        whole, group = self._range(kernel, launch)
        ready, held = self._packed(kernel, launch, buffers, sizes)
        recorder, must_wait = self._recorder, self._is_host and stream is None
        cleared = held[len(buffers) - 1] if launch.clears_result else None
        nbytes = buffers[-1].nbytes if launch.clears_result else 0

        def call(_held: object = held) -> None:
            with _named(f"kernel {kernel.entry!r}"):
                if cleared is not None:
                    cl.enqueue_fill_buffer(queue, cleared, _ZERO, 0, nbytes)
                event = cl.enqueue_nd_range_kernel(queue, ready, whole, group)
                if recorder.events is not None:
                    recorder.events.append(event)
                elif must_wait:
                    event.wait()
                else:
                    queue.flush()

        return call if all(whole) else _nothing

    @contextlib.contextmanager
    def recorded(self) -> Iterator[list[cl.Event]]:
        """Queue this thread's launches without waiting, give their events, wait at the end."""
        events: list[cl.Event] = []
        self._recorder.events = events
        try:
            yield events
        finally:
            self._recorder.events = None
            self._queue.finish()

    def synchronize(self) -> None:
        """Wait until all queued work is done."""
        self._queue.finish()

    def timer(self) -> TimerTier:
        """Return the clock of the device's events, else the host's."""
        if self._timer is None:
            self._timer = timer_of(self, self._queue)
        return self._timer

    def foreign_load(self) -> float | None:
        """Return None: OpenCL does not say."""
        return None

    def identity(self) -> Mapping[str, str]:
        """Return name, driver and, for OpenCL gives no identity, what the device states."""
        facts = self.facts
        device = f"{facts.name}, {facts.architecture}, {facts.multiprocessors} units"
        return {"device": device, "driver": facts.driver_version or ""}

    def close(self) -> None:
        """Wait for what is queued; memory goes with those who hold it."""
        self._queue.finish()

    def _packed(
        self,
        kernel: OpenClKernel,
        launch: Launch,
        buffers: Sequence[DeviceArray],
        sizes: Sequence[int],
    ) -> tuple[cl.Kernel, list[Any]]:
        # A kernel object of its own: arguments belong to it, and threads would share them.
        # It does not keep them: whoever launches it has to.
        with _named(f"kernel {kernel.entry!r}"):
            ready = cl.Kernel(kernel.program, kernel.entry)
            arguments: list[Any] = [self._memory.buffer(array) for array in buffers]
            arguments += [np.int64(size) for size in sizes]
            if launch.dynamic_shared_bytes:
                arguments.append(cl.LocalMemory(launch.dynamic_shared_bytes))
            if len(arguments) != ready.num_args:
                raise XpuLaunchException(
                    f"kernel {kernel.entry!r} takes {ready.num_args} arguments, "
                    f"given {len(arguments)}"
                )
            for place, argument in enumerate(arguments):
                ready.set_arg(place, argument)
        return ready, arguments

    def _range(self, kernel: OpenClKernel, launch: Launch) -> tuple[Any, Any]:
        """Return work-items and group; without a block, a group for each compute unit."""
        grid, group = launch.grid, launch.block
        if group is None:
            grid, group = (self.facts.multiprocessors or 1, 1, 1), kernel.group
        if min(grid) < 0 or min(group) < 1 or launch.dynamic_shared_bytes < 0:
            raise XpuLaunchException(
                f"kernel {kernel.entry!r} cannot be launched as {launch}: a grid has 0 groups or "
                "more, a block 1 work-item or more, dynamic memory 0 bytes or more"
            )
        return tuple(g * b for g, b in zip(grid, group, strict=True)), group


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """Turn a driver's refusal into one that says what was asked of it."""
    try:
        yield
    except (cl.Error, MemoryError) as error:
        raise XpuLaunchException(f"{what}: {error}") from error


def _nothing() -> None:
    """Launch a grid of no groups."""
