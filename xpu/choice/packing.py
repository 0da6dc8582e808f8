"""A member's code and how it is launched, packed on a device.

Trials and bound kernels pack alike: where something runs before each launch (activations
brought to 8 bits, say), it comes with memory of its own, so that launches packed apart do
not meet in it. Knows no family; measures nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from xpu.choice.job import loaded
from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray, Launch

_CAPTURED: Final[weakref.WeakKeyDictionary[Device, list[DeviceArray]]] = weakref.WeakKeyDictionary()
"""Memory that became part of a recording, kept for as long as the device."""


@attrs.frozen
class Staging:
    """What runs before each launch of an arm.

    It reads the array at `place` among the arm's and writes `nbytes` bytes that the arm's
    kernel takes instead.
    """

    code: Path
    entry: str
    launch: Launch
    sizes: tuple[int, ...]
    place: int
    nbytes: int


@attrs.frozen
class Arm:
    """One member's code and how it is launched on one problem.

    `code_hash` stands for all code that a launch runs. Without `code`, `entry` is a routine
    of a library.
    """

    code: Path | None
    entry: str
    code_hash: str
    launch: Launch
    sizes: tuple[int, ...]
    staging: tuple[Staging, ...] = ()


class Packer:
    """Packs launches of an arm on a device; the code is loaded once."""

    def __init__(self, device: Device, arm: Arm) -> None:
        self._device = device
        self._arm = arm
        self._kernel = loaded(device, arm.code, arm.entry)
        self._before = [device.load(each.code, each.entry) for each in arm.staging]

    def __call__(self, buffers: Sequence[DeviceArray], stream: Any = None) -> Callable[[], None]:
        """Pack one launch. It keeps none of the buffers alive, only memory of its own."""
        arm, device, taken = self._arm, self._device, list(buffers)
        before, memory = [], []
        for staging, kernel in zip(arm.staging, self._before, strict=True):
            _refuse_crooked(staging.launch, {staging.place: taken[staging.place]})
            staged = device.allocate(staging.nbytes)
            pair = (taken[staging.place], staged)
            before.append(device.launcher(kernel, staging.launch, pair, staging.sizes, stream))
            taken[staging.place] = staged
            memory.append(staged)
        _refuse_crooked(arm.launch, dict(enumerate(taken)))
        launch = device.launcher(self._kernel, arm.launch, taken, arm.sizes, stream)
        memory += getattr(launch, "memory", ())
        if memory and device.is_capturing(stream):
            # What was captured is replayed when nobody here knows of it any more.
            _CAPTURED.setdefault(device, []).extend(memory)
        return _Staged(before, launch, memory) if before else launch


def _refuse_crooked(launch: Launch, buffers: Mapping[int, DeviceArray]) -> None:
    for place, buffer in buffers.items():
        if buffer.address % launch.alignment_bytes:
            raise XpuLaunchException(
                f"array {place} begins at {buffer.address:#x}, which is no multiple of "
                f"{launch.alignment_bytes} bytes, as the kernel needs it; pass a copy of it; "
                "nothing was launched"
            )


class _Staged:
    """Launches of one queue, and the memory between them."""

    def __init__(
        self,
        before: Sequence[Callable[[], None]],
        launch: Callable[[], None],
        memory: Sequence[DeviceArray],
    ) -> None:
        self._before, self._launch, self._memory = tuple(before), launch, memory
        if (stream := getattr(launch, "stream", None)) is not None:
            self.stream = stream  # a clock asks a launch where it goes

    def __call__(self) -> None:
        for before in self._before:
            before()
        self._launch()
