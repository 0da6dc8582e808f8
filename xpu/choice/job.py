"""A job: a few launches, run once, here or in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from xpu.registry import blaming
from xpu.spec import Device, DeviceArray, Launch, LoadedKernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


LAUNCH: Final = "launcher()'s launch"
"""What is blamed, by name, for an error that a packed launch raises."""


@attrs.frozen
class Step:
    """One launch of a job: the code, and which of the job's buffers it takes.

    Without code, `entry` is a routine of a library.
    """

    code: Path | None
    entry: str
    launch: Launch
    buffers: tuple[int, ...]
    sizes: tuple[int, ...]


@attrs.frozen
class Job:
    """Launches over buffers, fresh ones but for those that lie on the device.

    `buffers` are host arrays to be copied in, a number of bytes of poisoned memory, or, of a job
    that runs in this process, arrays that lie on the device; `results` are the buffers to be
    copied out, as bytes.
    """

    steps: tuple[Step, ...]
    buffers: tuple[Array | DeviceArray | int, ...]
    results: tuple[int, ...]


def run_job(device: Device, job: Job) -> list[Array]:
    """Run a job on a device and return its results as uint8 arrays."""
    buffers = [_buffer(device, buffer) for buffer in job.buffers]
    for step in job.steps:
        kernel = loaded(device, step.code, step.entry)
        taken: Sequence[DeviceArray] = [buffers[index] for index in step.buffers]
        launch_once(device, kernel, step.launch, taken, step.sizes)
    return [device.to_host(buffers[index]) for index in job.results]


def loaded(device: Device, code: Path | None, entry: str) -> LoadedKernel:
    """Return a kernel of a code object, or a routine of a library where there is no code."""
    return device.routine(entry) if code is None else device.load(code, entry)


def launch_once(
    device: Device,
    kernel: LoadedKernel,
    launch: Launch,
    buffers: Sequence[DeviceArray],
    sizes: Sequence[int],
) -> None:
    """Launch a kernel and wait until it is done."""
    packed = device.launcher(kernel, launch, buffers, sizes)
    with blaming(device, LAUNCH):
        packed()
    device.synchronize()


def _buffer(device: Device, buffer: Array | DeviceArray | int) -> DeviceArray:
    if isinstance(buffer, int):
        return device.allocate(buffer, poisoned=True)
    return buffer if isinstance(buffer, DeviceArray) else device.from_host(buffer)
