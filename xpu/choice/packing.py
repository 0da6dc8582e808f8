"""A member's code and how it is launched, packed on a device.

Trials and bound kernels pack alike: where something runs before each launch (activations
brought to 8 bits, say), it comes with memory of its own, so that launches packed apart do
not meet in it. Knows no family; measures nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import attrs

from xpu.choice.job import loaded
from xpu.errors import XpuLaunchException
from xpu.spec import Device, DeviceArray, Launch

_CAPTURED: Final[weakref.WeakKeyDictionary[Device, list[DeviceArray]]] = weakref.WeakKeyDictionary()
"""Memory that became part of a recording, kept for as long as the device."""

_Before = tuple[Any, int, DeviceArray]
"""What runs before a launch, the place of what it reads, and what it writes."""
On = Callable[[Sequence[int]], None]
"""Makes a launch on other arrays, one address for each as packed."""


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

    @property
    def has_memory(self) -> bool:
        """Whether each launch comes with memory of its own; a library may work in some."""
        return bool(self._arm.staging) or self._arm.code is None

    def alignments_bytes(self, count: int) -> list[int]:
        """Return what the address of each of so many arrays must be a multiple of."""
        found = [self._arm.launch.alignment_bytes] * count
        for staging in reversed(self._arm.staging):
            found[staging.place] = staging.launch.alignment_bytes
        return found

    def refuse_crooked(self, buffers: Sequence[DeviceArray]) -> None:
        """Refuse an array that begins where the kernel cannot read it.

        Raises
        ------
        XpuLaunchException
            There is one.
        """
        alignments = self.alignments_bytes(len(buffers))
        for place, (buffer, alignment) in enumerate(zip(buffers, alignments, strict=True)):
            if buffer.address % alignment:
                raise XpuLaunchException(
                    f"array {place} begins at {buffer.address:#x}, which is no multiple of "
                    f"{alignment} bytes, as the kernel needs it; pass a copy of it; "
                    "nothing was launched"
                )

    @property
    def shares_memory(self) -> bool:
        """Whether launches can be packed in the memory of another.

        A library's cannot; nor is there any that is the packer's own where nothing is staged.
        """
        return bool(self._arm.staging) and self._arm.code is not None

    def __call__(
        self,
        buffers: Sequence[DeviceArray],
        stream: Any = None,
        memory: Sequence[DeviceArray] = (),
    ) -> Callable[[], None]:
        """Pack one launch. It keeps none of the buffers alive, only memory of its own.

        Where the device's launches can be moved, it can be made `on` others. `memory` is that of
        another launch of this arm, that never runs beside it.
        """
        self.refuse_crooked(buffers)
        arm, device, taken = self._arm, self._device, list(buffers)
        before: list[_Before] = []
        own = memory or [device.allocate(staging.nbytes) for staging in arm.staging]
        for staging, kernel, staged in zip(arm.staging, self._before, own, strict=True):
            pair = (taken[staging.place], staged)
            launch = device.launcher(kernel, staging.launch, pair, staging.sizes, stream)
            before.append((launch, staging.place, staged))
            taken[staging.place] = staged
        launch = device.launcher(self._kernel, arm.launch, taken, arm.sizes, stream)
        kept = [*own, *getattr(launch, "memory", ())]
        if kept and device.is_capturing(stream):
            # What was captured is replayed when nobody here knows of it any more.
            _CAPTURED.setdefault(device, []).extend(kept)
        return _joined(before, launch) if before else launch


def _joined(before: Sequence[_Before], launch: Callable[[], None]) -> Callable[[], None]:
    """Join launches of one queue and the memory between them.

    A function, since an object that is called like one costs 0.1 us more at every call.
    """
    stages = [stage for stage, _, _ in before]
    made: Any = _in_turn(stages, launch)
    made.memory = [staged for _, _, staged in before]  # kept for as long as the launch
    for name in ("stream", "is_recordable"):  # a clock asks a launch where it goes
        if (value := getattr(launch, name, None)) is not None:
            setattr(made, name, value)
    if all(hasattr(each, "addresses") for each in (*stages, launch)):
        made.on = _on(before, launch)
    return cast("Callable[[], None]", made)


def _in_turn(stages: Sequence[Callable[[], None]], launch: Callable[[], None]) -> Any:
    if not stages:
        return launch
    if len(stages) == 1:  # nearly always, and no loop then
        [stage] = stages

        def call_two() -> None:
            stage()
            launch()

        return call_two

    def call() -> None:
        for stage in stages:
            stage()
        launch()

    return call


def on(launch: Any) -> On | None:
    """Return what moves a packed launch to arrays and makes it, in as few calls as can be.

    None where the device's launches cannot be moved (see `MovableLaunch`).
    """
    found: On | None = getattr(launch, "on", None)
    if found is not None or not hasattr(launch, "addresses"):
        return found
    return _on((), launch)


def _on(before: Sequence[_Before], launch: Any) -> On:
    """Return what assigns the addresses that may change, and launches.

    Written out for three arrays, which almost all have: a loop takes 0.2 us more.
    """
    items, stages = _items(before, launch), [stage for stage, _, _ in before]
    if len(items) != 3:
        all_in_turn = _in_turn(stages, launch)

        def all_on(addresses: Sequence[int]) -> None:
            for (among, place), address in zip(items, addresses, strict=True):
                among[place] = address
            all_in_turn()

        return all_on
    (first, one), (second, two), (third, three) = items
    if not stages:

        def one_on(addresses: Sequence[int]) -> None:
            first[one], second[two], third[three] = addresses
            launch()

        return one_on
    stage, others = stages[0], _in_turn(stages[1:], launch)

    def two_on(addresses: Sequence[int]) -> None:
        first[one], second[two], third[three] = addresses
        stage()
        others()

    return two_on


def _items(before: Sequence[_Before], launch: Any) -> list[tuple[Any, int]]:
    """Return for each array of a launch the one item that takes its address.

    It is that of the first stage that reads the array, or else the launch's own. What reads
    memory between two of them always reads the same.
    """
    items = [(launch.addresses, place) for place in range(len(launch.addresses))]
    for stage, place, _ in reversed(before):
        items[place] = (stage.addresses, 0)
    return items
