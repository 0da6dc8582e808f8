"""Copies of a launch's inputs, so that a rotation reads memory that no cache holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from xpu.spec import Argument, Device, DeviceArray

_ALIGNMENT_BYTES: Final = 256
"""Distance between copies is a multiple of this: the widest alignment that a load asks for."""


def buffer_sets(
    device: Device, arguments: Sequence[Argument], buffers: Sequence[DeviceArray], count: int
) -> list[Sequence[DeviceArray]]:
    """Return `count` sets of buffers: the given one, and copies of what is read or updated.

    What is only written is shared by all sets: a cold launch is one that reads cold memory.
    Each argument's copies lie in one allocation, so that thousands of small ones cost little.
    """
    columns = [
        [buffer] * count if argument.access == "write" else _copies(device, buffer, count)
        for argument, buffer in zip(arguments, buffers, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _copies(device: Device, buffer: DeviceArray, count: int) -> list[DeviceArray]:
    if count == 1:
        return [buffer]
    stride = -(-buffer.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    slab = device.allocate(stride * (count - 1))
    made = [buffer]
    for index in range(count - 1):
        place = slab.address + index * stride
        copy = attrs.evolve(buffer, address=place, owner=slab)
        device.copy(buffer, copy)
        made.append(copy)
    return made
