"""A device's facts, without those that OpenCL drivers state and do not mean.

Left out: registers and grid limits, which OpenCL has no word for; on a GPU the cache size, for
some drivers give that of a first-level cache; on a processor the "preferred group multiple",
which PoCL states as 8 whatever the vector width is. On a processor the cores and the memory are
those that this process may use, not the whole machine's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xpu.model import DeviceFacts

if TYPE_CHECKING:
    import pyopencl as cl

FURTHER_FACTS: Final = ("max_allocation_bytes",)
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def is_processor(device: cl.Device) -> bool:
    """Whether the device is the host's processor."""
    import pyopencl as cl

    return bool(device.type & cl.device_type.CPU)


def facts_of(device: cl.Device) -> DeviceFacts:
    """Return what can be believed of a device."""
    is_host = is_processor(device)
    cores, memory = device.max_compute_units, device.global_mem_size
    if is_host:
        cores = min(cores, len(os.sched_getaffinity(0)))
        memory = min(memory, _cgroup_bytes() or memory)
        wave, cache = device.native_vector_width_float, device.global_mem_cache_size
    else:
        wave, cache = _info(device, "PREFERRED_WORK_GROUP_SIZE_MULTIPLE"), None
    return DeviceFacts(
        backend="opencl",
        name=_text(device.name),
        architecture=_text(device.version),
        driver_version=f"{_text(device.platform.version)}, {_text(device.driver_version)}",
        multiprocessors=cores,
        wave_width=wave,
        max_threads_per_block=device.max_work_group_size,
        shared_bytes_per_block=device.local_mem_size,
        last_level_cache_bytes=cache,
        memory_bytes=memory,
        further={"max_allocation_bytes": device.max_mem_alloc_size},
    )


def _info(device: cl.Device, name: str) -> Any:
    """Return a fact that only newer drivers know; None with the others."""
    import pyopencl as cl

    try:
        return device.get_info(getattr(cl.device_info, name))
    except (AttributeError, cl.Error):
        return None


def _text(value: str) -> str:
    return value.strip().rstrip("\0").strip()  # some drivers pad their names


def _cgroup_bytes() -> int | None:
    try:
        return int(_CGROUP_LIMIT.read_text())
    except (OSError, ValueError):  # no such limit, or "max"
        return None
