"""A member's code and how it is launched, packed on a device.

Trials and bound kernels pack alike: where something runs before each launch (activations
brought to 8 bits, say), it comes with memory of its own, so that launches packed apart do
not meet in it. Knows no family; measures nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

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

    `code_hash` stands for all code that a launch runs.
    """

    code: Path
    entry: str
    code_hash: str
    launch: Launch
    sizes: tuple[int, ...]
    staging: Staging | None = None


class Packer:
    """Packs launches of an arm on a device; the code is loaded once."""

    def __init__(self, device: Device, arm: Arm) -> None:
        self._device = device
        self._arm = arm
        self._kernel = device.load(arm.code, arm.entry)
        staging = arm.staging
        self._before = None if staging is None else device.load(staging.code, staging.entry)

    def __call__(self, buffers: Sequence[DeviceArray], stream: Any = None) -> Callable[[], None]:
        """Pack one launch. It keeps none of the buffers alive, only memory of its own."""
        arm, device = self._arm, self._device
        if arm.staging is None or self._before is None:
            _refuse_crooked(arm.launch, buffers)
            return device.launcher(self._kernel, arm.launch, buffers, arm.sizes, stream)
        staging, taken = arm.staging, list(buffers)
        _refuse_crooked(staging.launch, [taken[staging.place]])
        staged = device.allocate(staging.nbytes)
        pair = (taken[staging.place], staged)
        before = device.launcher(self._before, staging.launch, pair, staging.sizes, stream)
        taken[staging.place] = staged
        launch = device.launcher(self._kernel, arm.launch, taken, arm.sizes, stream)

        if device.is_capturing(stream):
            # What was captured is replayed when nobody here knows of it any more.
            _CAPTURED.setdefault(device, []).append(staged)
        return _Staged(before, launch, staged)


def _refuse_crooked(launch: Launch, buffers: Sequence[DeviceArray]) -> None:
    for place, buffer in enumerate(buffers):
        if buffer.address % launch.alignment_bytes:
            raise XpuLaunchException(
                f"array {place} begins at {buffer.address:#x}, which is no multiple of "
                f"{launch.alignment_bytes} bytes, as the kernel needs it; pass a copy of it; "
                "nothing was launched"
            )


class _Staged:
    """Two launches of one queue, and the memory between them."""

    def __init__(
        self, before: Callable[[], None], launch: Callable[[], None], staged: DeviceArray
    ) -> None:
        self._before, self._launch, self._staged = before, launch, staged
        if (stream := getattr(launch, "stream", None)) is not None:
            self.stream = stream  # a clock asks a launch where it goes

    def __call__(self) -> None:
        self._before()
        self._launch()
