"""From a family's member to the unit that a compiler takes: source, macros, entry symbol."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from xpu.adaptor.lane_literals import literal_lanes
from xpu.adaptor.launch_sites import FoundSites, member_sites, preparation_sites
from xpu.adaptor.pinning import pinned_block, sites_of, wave_of
from xpu.errors import XpuBuildError
from xpu.model import PREPARATION, Constant, Declarations, Family, LaunchSite, Member
from xpu.registry import bare, read_by
from xpu.spec import SPEC_VERSION, Compiler, Design, KernelSource, KernelUnit, Preparation

THREADS: Final = "XPU_THREADS"
"""The macro of a member's `threads`, and of the block that is pinned."""


def kernel_name(family: Family, member: Member) -> str:
    """Return what a member's kernel is called in messages and manifests."""
    return f"{family.name}.{member.name}"


def member_unit(
    family: Family,
    design: Design,
    source: KernelSource,
    member: Member,
    wave_width: int | None = None,
    known: FoundSites | None = None,
) -> KernelUnit:
    """Return the unit of one member, for a target whose waves are so many lanes wide.

    `known` are launches that were found before; see `xpu.adaptor.launch_sites`.

    Raises
    ------
    XpuBuildError
        What is declared contradicts the source, or is not constant.
    """
    kernel, own = kernel_name(family, member), bare(design)
    unit = KernelUnit(
        kernel=kernel,
        entry=symbol("xpu", design.name, member.name),
        text=source.text,
        includes=source.includes,
        defines={**macros(family.constants), **macros(member.parameters)},
        arguments=design.arguments,
    )
    found = member_sites(own, source, source.dialect, member.parameters, known)
    key = f"families.{family.name}.members.{member.name}"
    sites = sites_of(found, key, member.parameters, has_waves=wave_width is not None)
    declared = family.declared.over(own.declared)
    return _declared(unit, sites, declared, member.parameters, wave_width)


def preparation_unit(
    family: Family,
    source: KernelSource,
    preparation: Preparation | None = None,
    wave_width: int | None = None,
    known: FoundSites | None = None,
) -> KernelUnit:
    """Return the unit of a design's weight preparation; raises as `member_unit` does."""
    constants = None if preparation is None else preparation.constants
    unit = KernelUnit(
        kernel=f"{family.name}.{PREPARATION}",
        # Not named after the design: designs that share a preparation share its code, and
        # so the weights that one prepared serve the other.
        entry="xpu_prepare",
        text=source.text,
        includes=source.includes,
        defines=macros(_used(family, constants)),
    )
    return _prepared(unit, family, preparation, source.dialect, wave_width, known)


def staging_unit(
    family: Family,
    member: Member,
    staging: Preparation,
    dialect: str,
    wave_width: int | None = None,
    known: FoundSites | None = None,
) -> KernelUnit:
    """Return the unit of what runs before a member's launches; members of one source share it.

    Raises as `member_unit` does.
    """
    source = staging.source(dialect)
    unit = KernelUnit(
        kernel=f"{kernel_name(family, member)}.stage_{staging.argument}",
        entry="xpu_stage",
        text=source.text,
        includes=source.includes,
        defines=macros(_used(family, staging.constants)),
    )
    return _prepared(unit, family, staging, dialect, wave_width, known)


def _prepared(
    unit: KernelUnit,
    family: Family,
    preparation: Preparation | None,
    dialect: str,
    wave_width: int | None,
    known: FoundSites | None,
) -> KernelUnit:
    if preparation is None:
        return unit
    own = bare(preparation)
    found = preparation_sites(own, dialect, family.constants, known)
    sites = sites_of(found, unit.kernel, {}, has_waves=wave_width is not None)
    return _declared(unit, sites, own.declared, {}, wave_width)


def _declared(
    unit: KernelUnit,
    sites: tuple[LaunchSite, ...],
    declared: Declarations,
    parameters: Mapping[str, int],
    wave_width: int | None,
) -> KernelUnit:
    """Return a unit with its block pinned, and with what is declared of its code."""
    width = wave_of(unit.kernel, declared, parameters, wave_width)
    assumes_none = wave_width is None or declared.wave is not None
    if not assumes_none and (found := literal_lanes(unit.text, unit.includes)):
        raise XpuBuildError(
            f"{unit.kernel}: it declares no width of a wave, and assumes one: {found}; write "
            "xpu::wave_width, or declare @wave(width=…)"
        )
    pinned = pinned_block(unit.kernel, sites, declared, parameters, width)
    defines = dict(unit.defines)
    if sites:
        defines.pop(THREADS, None)  # a member's own is among them, or not the block
    if pinned.max_threads is not None:
        defines[THREADS] = str(pinned.max_threads)
    return attrs.evolve(
        unit,
        defines=defines,
        max_threads=pinned.max_threads,
        launch_sites=pinned.launch_sites,
        fast_math=bool(declared.fast_math),
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
    """Hash everything that a unit's code and manifest come from."""
    return built_key(source_key(unit), made_with(compiler, target))


def made_with(compiler: Compiler, target: str) -> tuple[str, ...]:
    """Return what compiles for a target, and what reads the facts of a manifest from its code."""
    return compiler.identity, compiler.fingerprint(target), target, read_by(compiler)


def built_key(source: str, maker: tuple[str, ...]) -> str:
    """Hash the key of a unit's source with what `made_with` says."""
    return _hashed([*maker, source])


def source_key(unit: KernelUnit) -> str:
    """Hash everything that a unit's code comes from but compiler and target."""
    return _hashed(_parts(unit))


def _parts(unit: KernelUnit) -> list[str]:
    return [
        f"spec {SPEC_VERSION}",
        unit.entry,
        _digest(unit.text),
        *(f"{name}\0{_digest(text)}" for name, text in sorted(unit.includes.items())),
        *(f"{name}={value}" for name, value in sorted(unit.defines.items())),
        *(f"{one.name} {one.dtype} {one.access}" for one in unit.arguments),
        f"max_threads {unit.max_threads} fast_math {unit.fast_math}",
    ]


@functools.lru_cache(maxsize=1024)
def _digest(text: str) -> str:
    """Hash a text, once for the many members that are made of it."""
    return hashlib.sha256(text.encode()).hexdigest()


def _hashed(parts: Iterable[str]) -> str:
    data = [part.encode() for part in parts]
    framed = [len(each).to_bytes(8, "little") + each for each in data]
    return hashlib.sha256(b"".join(framed)).hexdigest()
