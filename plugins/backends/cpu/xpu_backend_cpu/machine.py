"""What the machine says of itself: processor, caches, memory.

`read_machine` is a function of a root directory and what the process may use, so that the
files of any machine can be read. A figure that the machine does not give is absent.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from xpu.model import DeviceFacts
from xpu_backend_cpu import amx
from xpu_backend_cpu.limits import (
    allowed_cpus,
    cpu_list,
    memory_limit_bytes,
    number_or_absent,
    text_or_absent,
    worker_count,
)

FURTHER_FACTS: Final = ("l1d_bytes", "l2_bytes", "logical_cpus")
# float32 lanes of the widest registers; the first flag that is there counts.
_LANES: Final = (
    ("avx512f", 16),
    ("avx2", 8),
    ("avx", 8),
    ("sse2", 4),
    ("asimd", 4),
    ("neon", 4),
    ("lasx", 8),
    ("lsx", 4),
)
# Rows x columns x depth of one tile product. Source: Intel SDM volume 2, TDPB*.
_TILES: Final = (
    ("amx_int8", "int8->int32:16x16x64"),
    ("amx_bf16", "bfloat16->float32:16x16x32"),
    ("amx_fp16", "float16->float32:16x16x32"),
)
_MODEL_KEYS: Final = ("model name", "cpu model", "cpu", "Processor", "uarch")
# What tells two processors of one name apart, on x86, ARM and RISC-V.
_SIGNATURE_KEYS: Final = (
    *("vendor_id", "cpu family", "model", "model name", "stepping"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
    *("isa", "uarch", "cpu"),
)


@attrs.frozen
class Machine:
    """The machine as it can be used by this process; sizes are in bytes."""

    model: str | None
    signature: str
    logical_cpus: int
    workers: int
    lanes: int | None
    tiles: tuple[str, ...] | None
    l1d_bytes: int | None
    l2_bytes: int | None
    last_level_cache_bytes: int | None
    memory_bytes: int | None
    governor: str | None
    architecture: str
    kernel: str

    def facts(self) -> DeviceFacts:
        """Return the facts of the one device that the host is."""
        figures = {
            "backend": "cpu",
            "name": self.model,
            "architecture": self.architecture,
            "driver_version": self.kernel,
            "multiprocessors": self.workers,
            "wave_width": self.lanes,
            "last_level_cache_bytes": self.last_level_cache_bytes,
            "memory_bytes": self.memory_bytes,
            "matrix_shapes": self.tiles,
            "l1d_bytes": self.l1d_bytes,
            "l2_bytes": self.l2_bytes,
            "logical_cpus": self.logical_cpus,
        }
        present = {name: value for name, value in figures.items() if value is not None}
        return DeviceFacts.from_mapping(present, further=FURTHER_FACTS)

    def identity(self) -> Mapping[str, str]:
        """Return what an answer rests on beside the code that was timed."""
        text = f"{self.signature} {self.logical_cpus}"
        found = {
            "device": hashlib.sha256(text.encode()).hexdigest()[:32],
            "driver": self.kernel,
            "threads": str(self.workers),
        }
        return found if self.governor is None else {**found, "power": self.governor}


def this_machine(workers: int | None = None) -> Machine:
    """Read the machine that this process runs on.

    Raises
    ------
    XpuConfigError
        ``$XPU_CPU_THREADS`` is not a count.
    """
    root, allowed = Path("/"), allowed_cpus()
    return read_machine(
        root,
        allowed=allowed,
        workers=workers or worker_count(root, allowed, os.environ),
        architecture=platform.machine(),
        kernel=f"{platform.system()} {platform.release()}",
        may_use_tiles=amx.is_permitted(),
    )


def cpu_signature() -> str:
    """Return a hash of this machine's processor: its model and its flags."""
    return _signature(_cpuinfo(Path("/")), platform.machine())


def processor_flags() -> frozenset[str]:
    """Return the features that every processor of this machine has, in the kernel's words."""
    kinds = [_flags(cpu) for cpu in _cpuinfo(Path("/"))]
    return frozenset.intersection(*kinds) if kinds else frozenset()


def read_machine(
    root: Path,
    *,
    allowed: frozenset[int],
    workers: int,
    architecture: str,
    kernel: str,
    may_use_tiles: bool,
) -> Machine:
    """Read the machine whose ``proc`` and ``sys`` lie below `root`."""
    info = _cpuinfo(root)
    flags = _flags(info[0]) if info else frozenset()
    caches = _caches(root, allowed)
    tiles = tuple(shape for flag, shape in _TILES if flag in flags and may_use_tiles)
    governor = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    top = max((level for level, kind in caches if kind == "unified"), default=None)
    return Machine(
        model=_model(info),
        signature=_signature(info, architecture),
        logical_cpus=len(info) or len(allowed),
        workers=workers,
        lanes=_lanes(root, flags),
        tiles=tiles or None,
        l1d_bytes=_each(caches.get((1, "data"))),
        l2_bytes=_each(caches.get((2, "unified"))),
        last_level_cache_bytes=sum(caches[top, "unified"]) if top is not None else None,
        memory_bytes=_memory_bytes(root),
        governor=text_or_absent(governor),
        architecture=architecture,
        kernel=kernel,
    )


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    """Return one mapping for each logical processor."""
    found: list[dict[str, str]] = []
    for line in (text_or_absent(root / "proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            continue
        if key.strip() == "processor" and value.strip().isdigit():
            found.append({})
        elif found:
            found[-1][key.strip()] = value.strip()
    return found


def _flags(info: Mapping[str, str]) -> frozenset[str]:
    text = " ".join(info.get(key, "") for key in ("flags", "Features", "features"))
    return frozenset(text.lower().split())


def _model(info: list[dict[str, str]]) -> str | None:
    first = info[0] if info else {}
    named = next((first[key] for key in _MODEL_KEYS if first.get(key)), None)
    if named is None and "CPU part" in first:
        maker = first.get("CPU implementer", "unknown")
        return f"implementer {maker} part {first['CPU part']}"
    return named


def _signature(info: list[dict[str, str]], architecture: str) -> str:
    # Processors of several kinds in one machine all count: code may run on any of them.
    kinds = {
        " ".join([*(cpu.get(key, "") for key in _SIGNATURE_KEYS), *sorted(_flags(cpu))])
        for cpu in info
    }
    return hashlib.sha256("\n".join([architecture, *sorted(kinds)]).encode()).hexdigest()


def _lanes(root: Path, flags: frozenset[str]) -> int | None:
    fixed = next((lanes for flag, lanes in _LANES if flag in flags), None)
    if "sve" not in flags:
        return fixed
    vector = number_or_absent(text_or_absent(root / "proc/sys/abi/sve_default_vector_length"))
    return max(fixed or 0, (vector or 0) // 4) or None


def _caches(root: Path, allowed: frozenset[int]) -> dict[tuple[int, str], list[int]]:
    """Return the sizes of the distinct caches behind the allowed processors, by level and kind."""
    seen: set[tuple[int, str, frozenset[int]]] = set()
    sizes: dict[tuple[int, str], list[int]] = {}
    for cpu in sorted(allowed):
        for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
            level = number_or_absent(text_or_absent(index / "level"))
            kind = (text_or_absent(index / "type") or "").lower()
            size = _size(text_or_absent(index / "size"))
            sharers = cpu_list(text_or_absent(index / "shared_cpu_list")) or frozenset({cpu})
            if level is None or size is None or (level, kind, sharers) in seen:
                continue
            seen.add((level, kind, sharers))
            sizes.setdefault((level, kind), []).append(size)
    return sizes


def _each(sizes: list[int] | None) -> int | None:
    return min(sizes) if sizes else None


def _size(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG]?)", text or "")
    if match is None:
        return None
    return (int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]) or None


def _memory_bytes(root: Path) -> int | None:
    text = text_or_absent(root / "proc/meminfo") or ""
    match = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    figures = [int(match[1]) << 10] if match else []
    limit = memory_limit_bytes(root)
    # An unlimited cgroup of the first version states a limit beyond any memory.
    return min([*figures, *([limit] if limit is not None and figures else [])], default=None)
