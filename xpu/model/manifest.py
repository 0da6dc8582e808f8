"""The record that the compile step leaves of one kernel for one target."""

from __future__ import annotations

from typing import Final

import attrs

from xpu.model.facts import KernelFacts

MANIFEST_SCHEMA: Final = 1


@attrs.frozen
class BufferAccess:
    """How a kernel uses one buffer parameter, and whether that was derived from its code."""

    name: str
    mode: str
    is_derived: bool = False


@attrs.frozen
class Operation:
    """A native matrix or dot operation found in the generated code, and its tier."""

    instruction: str
    tier: str = "native"


@attrs.frozen
class Manifest:
    """Identity, footprint, accesses and native operations of one (kernel, target)."""

    kernel: str
    target: str
    code_hash: str
    compiler: str
    entry: str
    footprint: KernelFacts = attrs.field(factory=KernelFacts)
    buffers: tuple[BufferAccess, ...] = ()
    operations: tuple[Operation, ...] = ()
    schema: int = MANIFEST_SCHEMA
