"""From a family's member to the unit that a compiler takes: source, macros, entry symbol."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

from xpu.model import Constant, Family, Member
from xpu.spec import SPEC_VERSION, Compiler, Design, KernelSource, KernelUnit, Preparation


def kernel_name(family: Family, member: Member) -> str:
    """Return what a member's kernel is called in messages and manifests."""
    return f"{family.name}.{member.name}"


def member_unit(family: Family, design: Design, source: KernelSource, member: Member) -> KernelUnit:
    """Return the unit of one member."""
    return KernelUnit(
        kernel=kernel_name(family, member),
        entry=symbol("xpu", design.name, member.name),
        text=source.text,
        includes=source.includes,
        defines={**macros(family.constants), **macros(member.parameters)},
        arguments=design.arguments,
    )


def preparation_unit(
    family: Family, source: KernelSource, constants: Collection[str] | None = None
) -> KernelUnit:
    """Return the unit of a design's weight preparation, whose code these constants make."""
    return KernelUnit(
        kernel=f"{family.name}.prepare",
        # Not named after the design: designs that share a preparation share its code, and
        # so the weights that one prepared serve the other.
        entry="xpu_prepare",
        text=source.text,
        includes=source.includes,
        defines=macros(_used(family, constants)),
    )


def staging_unit(family: Family, member: Member, staging: Preparation, dialect: str) -> KernelUnit:
    """Return the unit of what runs before a member's launches; members of one source share it."""
    source = staging.source(dialect)
    return KernelUnit(
        kernel=f"{kernel_name(family, member)}.stage_{staging.argument}",
        entry="xpu_stage",
        text=source.text,
        includes=source.includes,
        defines=macros(_used(family, staging.constants)),
    )


def _used(family: Family, names: Collection[str] | None) -> Mapping[str, Constant]:
    if names is None:
        return family.constants
    return {name: value for name, value in family.constants.items() if name in names}


def symbol(*parts: str) -> str:
    """Join parts into a C identifier."""
    return re.sub(r"\W", "_", "_".join(parts), flags=re.ASCII)


def macros(values: Mapping[str, Constant]) -> dict[str, str]:
    """Turn named values into macros.

    ``tile_m = 8`` becomes ``XPU_TILE_M=8``, ``format = "q4_k"`` ``XPU_FORMAT_Q4_K=1``.
    """
    made: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            made[symbol("XPU", name, value).upper()] = "1"
        else:
            made[symbol("XPU", name).upper()] = str(int(value))
    return made


def unit_key(unit: KernelUnit, compiler: Compiler, target: str) -> str:
    """Hash everything that a unit's code comes from."""
    return _hashed([compiler.identity, compiler.fingerprint(target), target, *_parts(unit)])


def source_key(unit: KernelUnit) -> str:
    """Hash everything that a unit's code comes from but compiler and target."""
    return _hashed(_parts(unit))


def _parts(unit: KernelUnit) -> list[str]:
    return [
        f"spec {SPEC_VERSION}",
        unit.entry,
        unit.text,
        *(f"{name}\0{text}" for name, text in sorted(unit.includes.items())),
        *(f"{name}={value}" for name, value in sorted(unit.defines.items())),
        *(f"{one.name} {one.dtype} {one.access}" for one in unit.arguments),
    ]


def _hashed(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
