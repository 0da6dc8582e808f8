"""A device whose kernel copies, for tests of what a call does around it."""

from __future__ import annotations

import ctypes

import numpy as np

from xpu.errors import XpuLaunchException
from xpu.spec import Argument, Device, DeviceArray, LoadedKernel

ARGUMENTS = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))


class Tensor:
    """A DLPack array that is no numpy array: its memory can be exchanged under it."""

    def __init__(self, array):
        self.array = array

    @property
    def shape(self):
        return self.array.shape

    def __dlpack__(self, **_how):
        raise AssertionError("the device takes it")

    def data_ptr(self):
        return self.array.ctypes.data


class Torchlike(Tensor):
    """A tensor that tells what its likes are known by."""

    def __init__(self, array, *, device="here", requires_grad=False):
        super().__init__(array)
        self.device = device
        self.requires_grad = requires_grad

    @property
    def dtype(self):
        return self.array.dtype

    def is_contiguous(self):
        return self.array.flags.c_contiguous


class Opaque(Tensor):
    """One that does not tell its address."""

    data_ptr = None


class Addresses(list):
    """Addresses of a launch that tell whether one was assigned."""

    is_moved = False

    def __setitem__(self, place, address):
        self.is_moved = True
        super().__setitem__(place, address)


class CopyDevice(Device):
    """Its kernel doubles the first argument into the last one."""

    def __init__(self, *, moves=False):
        self.moves = moves
        self.fails = False
        self.streams = []
        self.packed = 0
        self.moved = 0
        self.imported = 0
        self.synchronized = 0

    def load(self, code, entry):
        return self.kernel

    def import_array(self, value, *, writable):
        self.imported += 1
        array = value.array if isinstance(value, Tensor) else value
        if isinstance(value, Torchlike) and (value.device != "here" or value.requires_grad):
            raise XpuLaunchException("it is elsewhere, or asks for a gradient")
        if not isinstance(array, np.ndarray):
            raise XpuLaunchException(f"a {type(value).__name__} is no array")
        if writable and not array.flags.writeable:
            raise XpuLaunchException("it is read-only")
        if not array.flags.c_contiguous or not array.flags.aligned:
            raise XpuLaunchException("it is not contiguous, or not aligned")
        return DeviceArray(array.ctypes.data, array.shape, array.dtype.name, array)

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        self.packed += 1
        # Addresses only: a packed launch keeps nothing alive.
        addresses = Addresses(buffer.address for buffer in buffers)
        floats = ctypes.c_float * sizes[0]

        def call():
            if self.fails:
                raise XpuLaunchException("no scratch")
            self.streams.append(stream)
            self.moved += addresses.is_moved
            addresses.is_moved = False
            read = floats.from_address(addresses[kernel.reads])
            written = floats.from_address(addresses[kernel.writes])
            np.multiply(np.asarray(read), 2, out=np.asarray(written))

        if self.moves:
            call.addresses = addresses
        return call

    def synchronize(self):
        self.synchronized += 1

    def allocate(self, nbytes, *, poisoned=False):
        raise AssertionError("nothing is allocated by a call")

    from_host = to_host = copy = poison = timer = foreign_load = allocate


class CopyKernel(LoadedKernel):
    def __init__(self, reads=0, writes=-1):
        self.entry = "copy"
        self.reads = reads
        self.writes = writes
