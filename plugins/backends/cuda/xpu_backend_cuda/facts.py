"""What the driver reports of each device. What it does not say, or says with a 0, is absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xpu.model import DeviceFacts
from xpu_backend_cuda import nvml
from xpu_backend_cuda.driver import checked, device_count, started
from xpu_backend_cuda.tiles import matrix_shapes

_ATTRIBUTES: Final[Mapping[str, str]] = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "wave_width": "WARP_SIZE",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "max_threads_per_multiprocessor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_blocks_per_multiprocessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "registers_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "shared_bytes_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_bytes_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_bytes_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "reserved_shared_bytes_per_block": "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "last_level_cache_bytes": "L2_CACHE_SIZE",
    "max_grid_x": "MAX_GRID_DIM_X",
    "max_grid_y": "MAX_GRID_DIM_Y",
    "max_grid_z": "MAX_GRID_DIM_Z",
}
FURTHER: Final[Mapping[str, str]] = {
    "max_block_x": "MAX_BLOCK_DIM_X",
    "max_block_y": "MAX_BLOCK_DIM_Y",
    "max_block_z": "MAX_BLOCK_DIM_Z",
}
"""Facts that the core does not know: the most threads along each side of a block."""
# The same on every part since 2014, and no attribute. Source: CUDA C++ Programming Guide,
# Compute Capabilities: four schedulers, 255 registers a thread; registers go to waves by 256.
_SIMDS: Final = 4
_MOST_REGISTERS: Final = 255
_REGISTER_UNIT: Final = 256


def all_facts() -> tuple[DeviceFacts, ...]:
    """Return the facts of every device, in the driver's order.

    Raises
    ------
    XpuLaunchException
        The driver cannot be asked.
    """
    started()
    return tuple(facts_of(index) for index in range(device_count()))


def facts_of(index: int) -> DeviceFacts:
    """Return the facts of one device. Nothing is allocated on it."""
    cu = started()
    what = f"device {index} cannot be asked"
    device = checked(cu.cuDeviceGet(index), what)
    major, minor = capability(cu, device)
    figures: dict[str, Any] = {
        name: _attribute(cu, device, attribute) for name, attribute in _ATTRIBUTES.items()
    }
    further = {name: _attribute(cu, device, attribute) for name, attribute in FURTHER.items()}
    return DeviceFacts(
        backend="cuda",
        name=_text(checked(cu.cuDeviceGetName(256, device), what)),
        architecture=f"sm_{major}{minor}",
        uuid=_uuid(checked(cu.cuDeviceGetUuid(device), what)),
        driver_version=nvml.driver_version() or _cuda_version(cu),
        simds_per_multiprocessor=_SIMDS,
        max_registers_per_thread=_MOST_REGISTERS,
        register_allocation_unit=_REGISTER_UNIT,
        memory_bytes=int(checked(cu.cuDeviceTotalMem(device), what)),
        matrix_shapes=matrix_shapes(f"sm_{major}{minor}") or None,
        further={name: size for name, size in further.items() if size},
        **figures,
    )


def target_of(index: int) -> str:
    """Return the architecture of a device, for instance ``sm_90``."""
    major, minor = capability_of(index)
    return f"sm_{major}{minor}"


def capability_of(index: int) -> tuple[int, int]:
    """Return the compute capability of a device, for instance 9 and 0."""
    cu = started()
    return capability(cu, checked(cu.cuDeviceGet(index), f"there is no device {index}"))


def bus_id(cu: Any, device: Any) -> str:
    """Return where a device is on the PCI bus."""
    return _text(checked(cu.cuDeviceGetPCIBusId(32, device), "no bus id")) or ""


def capability(cu: Any, device: Any) -> tuple[int, int]:
    """Return a device's compute capability."""
    major = _attribute(cu, device, "COMPUTE_CAPABILITY_MAJOR")
    return major or 0, _attribute(cu, device, "COMPUTE_CAPABILITY_MINOR") or 0


def _attribute(cu: Any, device: Any, name: str) -> int | None:
    attribute = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    code, value = cu.cuDeviceGetAttribute(attribute, device)
    return None if code else int(value)


def _uuid(value: Any) -> str | None:
    digits = bytes(value.bytes).hex()
    if not digits.strip("0"):
        return None
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _text(value: bytes) -> str | None:
    return value.split(b"\0")[0].decode(errors="replace").strip() or None


def _cuda_version(cu: Any) -> str | None:
    code, version = cu.cuDriverGetVersion()
    return None if code or not version else f"CUDA {version // 1000}.{version % 1000 // 10}"
