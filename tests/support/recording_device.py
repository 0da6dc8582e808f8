"""A device that notes what is launched on which addresses, and what memory it gave."""

from __future__ import annotations

import weakref

import numpy as np

from xpu.spec import DeviceArray


class Owner:
    """Memory that can be seen to go."""


class Recorder:
    """Its launches can be moved where `moves` says so; each notes itself when it is made."""

    def __init__(self, *, moves=False):
        self.moves = moves
        self.launched = []
        self.allocated = []
        self.asked = []
        self.packed = 0
        self.is_recording = False
        self.meanwhile = None

    def load(self, code, entry):
        return entry

    def routine(self, name):
        return f"routine {name}"

    def allocate(self, nbytes, *, poisoned=False):
        owner = Owner()
        self.allocated.append(weakref.ref(owner))
        return DeviceArray(4096 * len(self.allocated), (nbytes,), "uint8", owner)

    def launcher(self, kernel, launch, buffers, sizes, stream=None):
        addresses = [buffer.address for buffer in buffers]
        self.packed += 1

        def call():
            self.launched.append((kernel, tuple(addresses), tuple(sizes)))
            if self.meanwhile is not None:
                self.meanwhile()

        call.stream = stream
        if kernel.startswith("routine"):
            call.memory = (self.allocate(8),)
        if self.moves:
            call.addresses = addresses
            call.is_recordable = stream != "never recorded"
        return call

    def is_capturing(self, stream=None):
        self.asked.append(stream)
        return self.is_recording

    def alive(self):
        """Return which of its memory is still held, in the order of its allocation."""
        return [ref() is not None for ref in self.allocated]


def array(address):
    return DeviceArray(address, (4,), "float32", np.zeros(4))
