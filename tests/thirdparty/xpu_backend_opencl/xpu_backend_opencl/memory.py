"""Memory of a device: the host's, used in place, or its own behind numbers for addresses."""

from __future__ import annotations

import bisect
import ctypes
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyopencl as cl

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_LINE_BYTES: Final = 128  # OpenCL's widest type, and PoCL's base alignment
_HOST_KINDS: Final = frozenset({1, 3, 11})  # plain and pinned host memory. Source: dlpack.h
_POISON: Final = np.full(1, 0xFF, np.uint8)


class Memory(ABC):
    """What a device does with memory; `queue` runs its copies."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._context = queue.context

    @abstractmethod
    def allocate(self, nbytes: int) -> DeviceArray:
        """Return fresh memory as an uint8 array."""

    @abstractmethod
    def buffer(self, array: DeviceArray) -> cl.Buffer:
        """Return an OpenCL buffer over an array."""

    @abstractmethod
    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a caller's array without a copy, or refuse it by name."""

    def from_host(self, array: Array) -> DeviceArray:
        """Copy a host array to fresh memory."""
        fresh = self.allocate(array.nbytes)
        if array.nbytes:
            native = array.dtype.newbyteorder("=")
            self._copy(self.buffer(fresh), np.ascontiguousarray(array, native))
        return DeviceArray(fresh.address, array.shape, array.dtype.name, fresh.owner)

    def to_host(self, array: DeviceArray) -> Array:
        """Copy memory to a fresh host array."""
        fresh = np.empty(array.shape, array.dtype)
        if array.nbytes:
            self._copy(fresh, self.buffer(array))
        return fresh

    def copy(self, source: DeviceArray, destination: DeviceArray) -> None:
        """Copy memory to memory of the same size."""
        if source.nbytes:
            self._copy(self.buffer(destination), self.buffer(source))

    def poison(self, array: DeviceArray) -> None:
        """Fill memory with 0xFF bytes."""
        if array.nbytes:
            buffer = self.buffer(array)
            cl.enqueue_fill_buffer(self._queue, buffer, _POISON, 0, array.nbytes).wait()

    def _copy(self, destination: Any, source: Any) -> None:
        event = cl.enqueue_copy(self._queue, destination, source)
        if event is not None:
            event.wait()


class HostMemory(Memory):
    """Host memory that the device reads and writes in place."""

    def allocate(self, nbytes: int) -> DeviceArray:
        """Return fresh aligned memory."""
        raw = np.empty(nbytes + _LINE_BYTES, np.uint8)
        address = raw.ctypes.data + -raw.ctypes.data % _LINE_BYTES
        return DeviceArray(address, (nbytes,), "uint8", raw)

    def buffer(self, array: DeviceArray) -> cl.Buffer:
        """Return a buffer that uses the array's memory."""
        memory = (ctypes.c_uint8 * max(array.nbytes, 1)).from_address(array.address)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=memory)

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take a numpy array or a DLPack host array."""
        if isinstance(value, DeviceArray):
            return value
        array, is_frozen = _host_array(value)
        what = f"array of {array.dtype} {array.shape}"
        if not array.flags.c_contiguous:
            raise XpuLaunchException(f"{what} is not C-contiguous; pass ascontiguousarray(array)")
        if not array.flags.aligned or not array.dtype.isnative:
            raise XpuLaunchException(
                f"{what} is not aligned, or in foreign byte order; pass a copy"
            )
        if writable and is_frozen:
            raise XpuLaunchException(f"{what} is not writable; pass one that is")
        return DeviceArray(array.ctypes.data, array.shape, array.dtype.name, (value, array))


class _Allocation:
    """A buffer of the device's own; its arrays hold it."""

    def __init__(self, buffer: cl.Buffer) -> None:
        self.buffer = buffer


class OwnMemory(Memory):
    """Memory that the host cannot reach. Addresses are numbers that this class gives out."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        super().__init__(queue)
        self._lock = threading.Lock()
        self._next = 1 << 48
        self._bases: list[int] = []
        self._live: weakref.WeakValueDictionary[int, _Allocation] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> DeviceArray:
        """Return a fresh buffer."""
        made = _Allocation(cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(nbytes, 1)))
        with self._lock:
            if len(self._bases) > 2 * len(self._live) + 64:
                self._bases = sorted(self._live)
            base, self._next = self._next, self._next + nbytes + 4096 & -4096
            self._bases.append(base)
            self._live[base] = made
        return DeviceArray(base, (nbytes,), "uint8", made)

    def buffer(self, array: DeviceArray) -> cl.Buffer:
        """Return an array's buffer, or the part of one that it is."""
        with self._lock:
            place = bisect.bisect_right(self._bases, array.address) - 1
            base = self._bases[place] if place >= 0 else 0
            found = self._live.get(base)
        if found is None or array.address + array.nbytes > base + found.buffer.size:
            raise XpuLaunchException(f"address {array.address:#x} is no memory of this device")
        if not array.nbytes or (array.address, array.nbytes) == (base, found.buffer.size):
            return found.buffer
        return found.buffer.get_sub_region(array.address - base, array.nbytes)

    def import_array(self, value: Any, *, writable: bool) -> DeviceArray:
        """Take memory of this device; refuse everything else."""
        if isinstance(value, DeviceArray):
            return value
        raise XpuLaunchException(
            f"an object of type {type(value).__name__} lives in host memory, which this OpenCL "
            "device does not use in place; copy it to the device first"
        )


def _host_array(value: Any) -> tuple[Array, bool]:
    """Return an array over the same memory, and whether it must not be written."""
    if isinstance(value, np.ndarray):
        return value, not value.flags.writeable
    if not (hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")):
        raise XpuLaunchException(
            f"an object of type {type(value).__name__} is no array; pass a numpy array, or one "
            "that offers __dlpack__"
        )
    kind, number = value.__dlpack_device__()
    if int(kind) not in _HOST_KINDS:
        raise XpuLaunchException(
            f"the array lives on another device (DLPack kind {int(kind)}, number {number}), not in "
            "host memory; copy it to the host first"
        )
    try:
        array = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise XpuLaunchException(f"DLPack: {error}; pass a numpy array") from error
    return array, not array.flags.writeable and _can_say(value)


def _can_say(value: Any) -> bool:
    """Whether a producer's protocol can say that memory is read-only; numpy assumes it else."""
    try:
        value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    return True


def memory_of(queue: cl.CommandQueue) -> Memory:
    """Return the memory of a queue's device: in place where a write is seen at once."""
    host = HostMemory(queue)
    seen = np.zeros(4096, np.uint8)
    try:
        host.poison(host.import_array(seen, writable=True))
    except cl.Error:
        return OwnMemory(queue)
    return host if bool((seen == _POISON).all()) else OwnMemory(queue)
