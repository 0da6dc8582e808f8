"""The record that the compile step leaves of one kernel for one target."""

from __future__ import annotations

from typing import Final

import attrs

from xpu.model.facts import KernelFacts

MANIFEST_SCHEMA: Final = 2


@attrs.frozen
class BufferAccess:
    """How a kernel uses one buffer parameter, and whether that was derived from its code.

    `mode` is ``read``, ``write`` or ``update``, as a design declares it; where it was derived
    also ``unused``.
    """

    name: str
    mode: str
    is_derived: bool = False


@attrs.frozen
class Operation:
    """A matrix or dot operation of the generated code, and its tier.

    Attributes
    ----------
    instruction
        As the compiler writes it; or the shape of matrices that the source multiplies, as
        `MatrixShape` writes it.
    tier
        ``native``: by the part's own instructions; ``software``: others stand for it;
        ``demoted``: so too, though the part has the shape, for the kernel uses it together with
        one that the part has not.
    places
        How often it stands in the code; absent where nobody counted.
    """

    instruction: str
    tier: str = "native"
    places: int | None = None

    @property
    def is_shape(self) -> bool:
        """Whether it is a shape of matrices, and no instruction."""
        return "->" in self.instruction


@attrs.frozen
class LaunchSite:
    """A place where a kernel is launched, or that bounds its launches.

    Attributes
    ----------
    where
        File and line of host code, or a key of the configuration.
    threads
        Threads of the block there; None where that depends on the problem.
    """

    where: str
    threads: int | None = None


@attrs.frozen
class Manifest:
    """Identity, footprint, accesses and native operations of one (kernel, target).

    `max_threads` is the block that the compiler was told; a larger one is not launched. It is
    the largest of those at `launch_sites`. None: the kernel has no blocks, or no bound.
    """

    kernel: str
    target: str
    code_hash: str
    compiler: str
    entry: str
    footprint: KernelFacts = attrs.field(factory=KernelFacts)
    buffers: tuple[BufferAccess, ...] = ()
    operations: tuple[Operation, ...] = ()
    max_threads: int | None = None
    launch_sites: tuple[LaunchSite, ...] = ()
    schema: int = MANIFEST_SCHEMA

    @property
    def tier(self) -> str | None:
        """The tier of all matrices that the kernel multiplies, or their tiers; None without any."""
        tiers = sorted({each.tier for each in self.operations if each.is_shape})
        return ", ".join(tiers) or None
