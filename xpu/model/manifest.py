"""The record that the compile step leaves of one kernel for one target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model.facts import KernelFacts

MANIFEST_SCHEMA: Final = 2
_MODES: Final = ("read", "write", "update", "unused")
_TIERS: Final = ("native", "software", "demoted")

Check = Callable[[object, "attrs.Attribute[Any]", object], None]


def _text(_record: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise XpuConfigError(f"{field.name} is a text, not {value!r}")


def _flag(_record: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, bool):
        raise XpuConfigError(f"{field.name} is true or false, not {value!r}")


def _count(_record: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise XpuConfigError(f"{field.name} is a whole number, 0 or more, or absent, not {value!r}")


def _one_of(allowed: tuple[str, ...]) -> Check:
    def check(_record: object, field: attrs.Attribute[Any], value: object) -> None:
        if value not in allowed:
            raise XpuConfigError(f"{field.name} is one of {', '.join(allowed)}, not {value!r}")

    return check


@attrs.frozen
class BufferAccess:
    """How a kernel uses one buffer parameter, and whether that was derived from its code.

    `mode` is ``read``, ``write`` or ``update``, as a design declares it; where it was derived
    also ``unused``.
    """

    name: str = attrs.field(validator=_text)
    mode: str = attrs.field(validator=_one_of(_MODES))
    is_derived: bool = attrs.field(default=False, validator=_flag)


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

    instruction: str = attrs.field(validator=_text)
    tier: str = attrs.field(default="native", validator=_one_of(_TIERS))
    places: int | None = attrs.field(default=None, validator=_count)

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

    where: str = attrs.field(validator=_text)
    threads: int | None = attrs.field(default=None, validator=_count)


@attrs.frozen
class Manifest:
    """Identity, footprint, accesses and native operations of one (kernel, target).

    `max_threads` is the block that the compiler was told; a larger one is not launched. It is
    the largest of those at `launch_sites`. None: the kernel has no blocks, or no bound.
    """

    kernel: str = attrs.field(validator=_text)
    target: str = attrs.field(validator=_text)
    code_hash: str = attrs.field(validator=_text)
    compiler: str = attrs.field(validator=_text)
    entry: str = attrs.field(validator=_text)
    footprint: KernelFacts = attrs.field(factory=KernelFacts)
    buffers: tuple[BufferAccess, ...] = ()
    operations: tuple[Operation, ...] = ()
    max_threads: int | None = attrs.field(default=None, validator=_count)
    launch_sites: tuple[LaunchSite, ...] = ()
    schema: int = MANIFEST_SCHEMA

    @property
    def tier(self) -> str | None:
        """The tier of all matrices that the kernel multiplies, or their tiers; None without any."""
        tiers = sorted({each.tier for each in self.operations if each.is_shape})
        return ", ".join(tiers) or None
