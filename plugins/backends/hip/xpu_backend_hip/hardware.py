"""What AMD's tables say of a target's parts, where the runtime says nothing or something wrong.

A multiprocessor is what the runtime counts: a compute unit up to gfx9, later a work-group
processor of two of them, unless it was told to count compute units there, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

import attrs

from xpu_backend_hip.targets import generation

_TWO_FILES: Final = frozenset({"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
"""Parts whose accumulation registers are in the file that all threads have: 512 a lane. Source:
LLVM, FeatureGFX90AInsts; AMD, GPU hardware specifications, VGPR file 512 KiB."""
_WIDE_FILES: Final = frozenset({"gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"})
"""Parts with half as many registers again. Source: LLVM, Feature1_5xVGPRs; AMD, GPU hardware
specifications, VGPR file 768 KiB."""
_FIRST_RDNA: Final = 10
_RDNA_LDS_BYTES: Final = 128 << 10
"""Of a work-group processor. Source: AMD, GPU hardware specifications, LDS."""
_GCN_FILE: Final = 65536
_RDNA_FILE: Final = 131072
"""Registers of 32 bits of a compute unit, and of a work-group processor. Source: AMD, GPU hardware
specifications: VGPR files of 256 KiB and of 512 KiB."""

_GENERIC: Final[Mapping[str, tuple[str, ...]]] = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": tuple(f"gfx103{number}" for number in range(7)),
    "gfx11-generic": tuple(f"gfx11{number}" for number in ("00", "01", "02", "03", 50, 51, 52, 53)),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}
"""Targets that stand for several parts. Source: LLVM, User Guide for AMDGPU Backend, generic
processors."""


@attrs.frozen
class Hardware:
    """What is known of a multiprocessor by the name of its target.

    Attributes
    ----------
    is_rdna
        Whether compute units come in pairs.
    simds
        SIMD units: four of a compute unit up to gfx9, two and two later.
        Source: AMD, GPU hardware specifications.
    registers
        Of 32 bits, in the register file.
    shared_bytes
        Local memory; None where what the runtime says is right.
    register_unit
        Registers are given to a wave by so many. Source: getVGPRAllocGranule of LLVM's
        AMDGPUBaseInfo.cpp, there for each lane.
    thread_registers
        The most of one thread. Source: getAddressableNumVGPRs, the same file.
    """

    is_rdna: bool
    simds: int
    registers: int
    shared_bytes: int | None
    register_unit: int
    thread_registers: int


def hardware_of(architecture: str) -> Hardware | None:
    """Return what is known of a processor, for instance ``gfx1151``; None for an unknown one."""
    number = generation(architecture)
    if number is None or number > 12:
        return None
    if number < _FIRST_RDNA:
        has_two = architecture in _TWO_FILES
        lanes, granule, file = 64, 8 if has_two else 4, _GCN_FILE * (2 if has_two else 1)
        most = 512 if has_two else 256
        return Hardware(False, 4, file, None, granule * lanes, most)
    lanes, granule, file = 32, 16, _RDNA_FILE
    if architecture in _WIDE_FILES:
        granule, file = 24, _RDNA_FILE * 3 // 2
    elif architecture.startswith("gfx101"):
        granule = 8
    return Hardware(True, 4, file, _RDNA_LDS_BYTES, granule * lanes, 256)


def runnable(target: str) -> Sequence[str]:
    """Return the targets whose code a device runs, the best first.

    Code for its processor that leaves a feature open runs whatever that is.

    Parameters
    ----------
    target
        What the runtime calls the device, for instance ``gfx90a:sramecc+:xnack-``.
    """
    processor, *features = target.split(":")
    own = [
        ":".join((processor, *some))
        for count in range(len(features), -1, -1)
        for some in combinations(features, count)
    ]
    generic = [name for name, parts in _GENERIC.items() if processor in parts]
    return (*own, *generic)
