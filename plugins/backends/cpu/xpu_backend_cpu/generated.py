"""Reads what the compiler left beside the code: its assembly text and its stack report."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from xpu.model import Operation

# Dot products and matrix products that the processor does in one instruction.
# Source: Intel SDM volume 2 (VNNI, BF16, FP16, AMX); Arm ARM, A64 SIMD, SVE and SME.
_NATIVE: Final = re.compile(
    r"^\s+(vpdp[bw]\w+|vdp(?:bf16|ph)ps|tdp\w+|tcmm\w+"
    r"|[su]dot|usdot|sudot|bfdot|[su]mmla|usmmla|bfmmla|fmmla|(?:us|su|bf|[suf])mop[as])\s",
    re.MULTILINE,
)
_SPILL: Final = re.compile(r"(?:#|//|;) \d+-byte (?:Folded )?Spill$", re.MULTILINE)


def native_operations(assembly: str) -> tuple[Operation, ...]:
    """Name each native dot or matrix instruction of the code once, in alphabetic order."""
    found = Counter(_NATIVE.findall(assembly))
    return tuple(Operation(name, places=found[name]) for name in sorted(found))


def spill_stores(assembly: str) -> int:
    """Count the instructions beside which clang says that they spill a register."""
    return len(_SPILL.findall(assembly))


def largest_frame_bytes(report: str) -> int | None:
    """Return the largest stack frame of a ``-fstack-usage`` report, in bytes.

    Absent when nothing is reported, or when a frame grows at run time without a bound.
    """
    largest: int | None = None
    for line in report.splitlines():
        columns = line.split("\t")
        if len(columns) != 3 or not columns[1].isdigit():
            continue
        if columns[2] == "dynamic":
            return None
        largest = max(largest or 0, int(columns[1]))
    return largest
