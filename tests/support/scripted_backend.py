"""A backend whose code objects are texts that say what a launch does, for tests of workers.

A launch of ``add`` writes the first buffer plus one into the last one. It is imported by
worker processes: nothing here may need a test's own modules.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from xpu.errors import XpuLaunchException
from xpu.model import DeviceFacts
from xpu.spec import Availability, Backend, Device, DeviceArray, LoadedKernel


class Script(LoadedKernel):
    def __init__(self, entry, text):
        self.entry = entry
        self.text = text


class ScriptedDevice(Device):
    facts = DeviceFacts(backend="scripted", memory_bytes=1 << 30, last_level_cache_bytes=1 << 16)

    def __init__(self):
        self.ran = []
        self.allocated = 0
        self.is_lost = False

    def load(self, code, entry):
        try:
            return Script(entry, code.read_text())
        except OSError as error:
            raise XpuLaunchException(f"{entry} cannot be loaded: {error}") from error

    def import_array(self, value, *, writable):
        return DeviceArray(value.ctypes.data, value.shape, value.dtype.name, value)

    def allocate(self, nbytes, *, poisoned=False):
        self.allocated += nbytes
        owner = np.full(nbytes, 0xFF if poisoned else 0x11, np.uint8)
        return DeviceArray(owner.ctypes.data, (nbytes,), "uint8", owner)

    def from_host(self, array):
        self.allocated += array.nbytes
        owner = np.array(array, order="C")
        return DeviceArray(owner.ctypes.data, owner.shape, owner.dtype.name, owner)

    def to_host(self, array):
        return array.owner.view(np.uint8).ravel().copy()

    def copy(self, source, destination):
        pass

    def poison(self, array):
        array.owner.view(np.uint8)[...] = 0xFF

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        def call():
            self.is_lost |= kernel.text == "lose"
            self.synchronize()
            self.ran.append((kernel.text, buffers[0].address))
            run(kernel.text, buffers)

        return call

    def synchronize(self):
        if self.is_lost:
            raise XpuLaunchException("the context is lost")

    def timer(self):
        raise AssertionError("a worker times nothing")

    def foreign_load(self):
        return 0.0


def floats(array):
    memory = (ctypes.c_float * (array.nbytes // 4)).from_address(array.address)
    return np.ctypeslib.as_array(memory)


def run(text, buffers):
    word, _, rest = text.partition(" ")
    match word:
        case "add" | "copy":
            first, last = floats(buffers[0]), floats(buffers[-1])
            last[: first.size - int(rest or 0)] = (first + (word == "add"))[
                : first.size - int(rest or 0)
            ]
        case "wrong":
            floats(buffers[-1])[...] = 7
        case "scribble":
            floats(buffers[0])[...] = np.nan
            run("add", buffers)
        case "signal":
            # Under nohup, and in a child of it, SIGHUP is ignored.
            number = getattr(signal, rest)
            if number != signal.SIGKILL:  # whose action nobody may set
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            time.sleep(5)
        case "exit":
            os._exit(int(rest))
        case "sleep":
            time.sleep(float(rest))
        case "print":
            os.write(1, b"to standard output\n" * 1000)
            sys.stdout.write("more\n")
            run("add", buffers)
        case "raise":
            raise XpuLaunchException(rest)
        case "tell":  # leave the process number where the test finds it, then go on
            path, _, then = rest.partition(" ")
            Path(path).write_text(str(os.getpid()))
            run(then, buffers)
        case _:
            raise AssertionError(text)


class ScriptedBackend(Backend):
    name = "scripted"
    dialect = "c"

    def availability(self):
        return Availability(True)

    def compiler(self):
        raise AssertionError("a worker compiles nothing")

    def devices(self):
        return (ScriptedDevice.facts,)

    def open(self, index=0):
        return ScriptedDevice()


class ClosedBackend(ScriptedBackend):
    """Its device cannot be opened."""

    def open(self, index=0):
        raise XpuLaunchException("the device is busy")


class UnfinishedDevice(Device):
    """Its author forgot the methods."""


class UnfinishedBackend(ScriptedBackend):
    """Its device lacks abstract methods."""

    def open(self, index=0):
        return UnfinishedDevice()


class NeedyBackend(ScriptedBackend):
    """It cannot be made anew without being told something."""

    def __init__(self, needed):
        self.needed = needed


class DyingBackend(ScriptedBackend):
    """Opening its device ends the process."""

    def open(self, index=0):
        os._exit(3)
