"""What the runtime reports of each device, less what it is known to report wrongly.

A figure that is wrong is replaced by the right one where that can be had, else it is absent; a 0 is
absent. Source of what is wrong: the reports that the tests' ``devices.toml`` names by device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xpu.model import DeviceFacts
from xpu_backend_hip.calls import Calls
from xpu_backend_hip.driver import bindings, checked, device_count, started, version_text
from xpu_backend_hip.hardware import Hardware, hardware_of
from xpu_backend_hip.matrices import matrix_shapes
from xpu_backend_hip.sysfs import Sysfs, driver_version

_ATTRIBUTES: Final[Mapping[str, str]] = {
    "multiprocessors": "MultiprocessorCount",
    "wave_width": "WarpSize",
    "max_threads_per_block": "MaxThreadsPerBlock",
    "max_threads_per_multiprocessor": "MaxThreadsPerMultiProcessor",
    "registers_per_multiprocessor": "MaxRegistersPerMultiprocessor",
    "registers_per_block": "MaxRegistersPerBlock",
    "shared_bytes_per_block": "MaxSharedMemoryPerBlock",
    "shared_bytes_per_block_optin": "SharedMemPerBlockOptin",
    "shared_bytes_per_multiprocessor": "MaxSharedMemoryPerMultiprocessor",
    "last_level_cache_bytes": "L2CacheSize",
    "max_grid_x": "MaxGridDimX",
    "max_grid_y": "MaxGridDimY",
    "max_grid_z": "MaxGridDimZ",
    "max_block_x": "MaxBlockDimX",
    "max_block_y": "MaxBlockDimY",
    "max_block_z": "MaxBlockDimZ",
}
FURTHER: Final = ("max_block_x", "max_block_y", "max_block_z")
"""Facts that the core does not know: the most threads along each side of a block."""
_PAIRED_THREADS: Final = 2048
"""Threads from which on an RDNA multiprocessor is a pair of compute units: RDNA 1 has 2560, later
ones 2048, a single unit half of it. Source: devices.toml, rocminfo beside hipinfo."""
_LAST_IS_L2: Final = ("gfx90", "gfx101")
"""Targets whose L2 is the last level. On later ones it lies before another, and the runtime's
figure is that of one die, or of the L2 alone. Source: AMD, GPU hardware specifications."""


def all_facts() -> tuple[DeviceFacts, ...]:
    """Return the facts of every device, in the runtime's order.

    Raises
    ------
    XpuLaunchException
        The runtime cannot be asked.
    """
    return tuple(facts_of(index) for index in range(device_count()))


def facts_of(index: int) -> DeviceFacts:
    """Return the facts of one device. Nothing is allocated on it."""
    hip = started()
    what = f"device {index} cannot be asked"
    names = bindings()
    properties = _properties(hip, names, index)
    kinds = names.hipDeviceAttribute_t
    raw = {
        name: _attribute(hip, kinds[f"hipDeviceAttribute{attribute}"], index)
        for name, attribute in _ATTRIBUTES.items()
    }
    architecture = _text(properties.gcnArchName).partition(":")[0]
    figures = cleaned(raw, architecture, Sysfs(bus_id(hip, index)).last_level_cache_bytes())
    further = {name: figures.pop(name) for name in FURTHER}
    version = checked(hip.hipRuntimeGetVersion(), what)
    return DeviceFacts(
        backend="hip",
        name=_text(properties.name) or None,
        architecture=architecture or None,
        uuid=_uuid(hip, index),
        driver_version=f"HIP {version_text(version)}, {driver_version()}",
        memory_bytes=checked(hip.hipDeviceTotalMem(index), what),
        matrix_shapes=matrix_shapes(architecture) or None,
        further={name: size for name, size in further.items() if size},
        **figures,
    )


def cleaned(
    raw: Mapping[str, int | None], architecture: str, cache_bytes: int | None
) -> dict[str, Any]:
    """Return the figures of a device as they are.

    Parameters
    ----------
    raw
        As the runtime reports them, by the names of `DeviceFacts`; None where it refuses.
    architecture
        The processor, for instance ``gfx1151``.
    cache_bytes
        The last level of its caches as the kernel's driver knows it.
    """
    figures: dict[str, Any] = {name: value or None for name, value in raw.items()}
    # The runtime fills both from one figure, and some releases only one of them.
    of_block = figures.pop("registers_per_block", None)
    figures["registers_per_multiprocessor"] = figures["registers_per_multiprocessor"] or of_block
    # Threads of a multiprocessor over those of the largest block: no limit of the hardware.
    figures["max_blocks_per_multiprocessor"] = None
    known = hardware_of(architecture)
    if known is not None:
        figures.update(_of_table(figures, known))
    figures["shared_bytes_per_multiprocessor"] = _shared_bytes(figures)
    if cache_bytes or not architecture.startswith(_LAST_IS_L2):
        figures["last_level_cache_bytes"] = cache_bytes
    return figures


def target_of(index: int) -> str:
    """Return what code for a device is compiled for, with features: ``gfx90a:sramecc+:xnack-``."""
    return _text(_properties(started(), bindings(), index).gcnArchName)


def bus_id(hip: Calls, index: int) -> str:
    """Return where a device is on the PCI bus."""
    return _text(checked(hip.hipDeviceGetPCIBusId(index), "no bus id"))


def _properties(hip: Calls, names: Any, index: int) -> Any:
    """Return the properties of a device: the memory is hip-python's, the runtime fills it."""
    made = names.hipDeviceProp_t()
    checked(hip.hipGetDevicePropertiesR0600(int(made), index), f"there is no device {index}")
    return made


def _of_table(figures: Mapping[str, Any], known: Hardware) -> dict[str, Any]:
    """Return the figures that the hardware's table knows better than the runtime."""
    threads = figures["max_threads_per_multiprocessor"] or _PAIRED_THREADS
    is_paired = known.is_rdna and threads >= _PAIRED_THREADS
    # Told to count compute units, the runtime gives each half of what a pair has.
    parts = 2 if known.is_rdna and not is_paired else 1
    found: dict[str, Any] = {
        "multiprocessor_unit": "wgp" if is_paired else "cu",
        "simds_per_multiprocessor": known.simds // parts,
        "registers_per_multiprocessor": known.registers // parts,
        "register_allocation_unit": known.register_unit,
        "max_registers_per_thread": known.thread_registers,
    }
    if known.shared_bytes is not None:
        found["shared_bytes_per_multiprocessor"] = known.shared_bytes // parts
    return found


def _shared_bytes(figures: Mapping[str, Any]) -> int | None:
    """Take out of a multiprocessor's shared memory that of all the others, where it is in it."""
    found: int | None = figures["shared_bytes_per_multiprocessor"]
    count: int = figures["multiprocessors"] or 1
    of_block = figures["shared_bytes_per_block"]
    if found is None or not of_block or count == 1:
        return found
    return found // count if found >= of_block * count else found


def _attribute(hip: Calls, attribute: int, index: int) -> int | None:
    code, value = hip.hipDeviceGetAttribute(int(attribute), index)
    return None if code else int(value)


def _uuid(hip: Calls, index: int) -> str | None:
    """Return the part's number, sixteen digits as text; ``XX`` where a part has none."""
    code, value = hip.hipDeviceGetUuid(index)
    text = _text(value) if not code else ""
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return f"GPU-{text}" if number else None


def _text(value: bytes | str) -> str:
    """Return a text up to its end; hip-python gives some as bytes."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return text.split("\0")[0].strip()
