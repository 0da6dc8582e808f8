"""What designs and families declare of their kernels, as far as configuration knows it.

A design's shapes are members in the lowest layer, its requirements are each family's, and a
family states the same in TOML as a decorator does on a design.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.expressions import constant_expression
from xpu.model import PREPARATION, Declarations, Unbounded, Unlowered, nearest
from xpu.settings.merge import Entry, FamilyEntry
from xpu.settings.places import File, shown
from xpu.spec.design import Design

KEYS: Final = frozenset({"occupancy", "wave", "fast_math", "unlowered", "unbounded"})
"""Keys of a family that declare something of its kernels."""


def place_of(design: Design, *path: str) -> Entry:
    """Return an entry that stands for what a design's decorators say."""
    return Entry(path, {}, {"": File(Path(f"design {design.name!r}"))})


def take_shapes(families: Mapping[str, FamilyEntry], designs: Mapping[str, Design]) -> None:
    """Put the shapes that designs declare below the members of their families."""
    for name, family in families.items():
        design = designs.get(family.values.get("design", ""))
        if design is None or not design.declared.members:
            continue
        below: dict[str, Entry] = {}
        for member in design.declared.members:
            entry = place_of(design, "families", name, "members", member.name)
            entry.values = {"name": member.name, **member.parameters}
            if member.dialects is not None:
                entry.values["dialects"] = list(member.dialects)
            below[member.name] = entry
        family.members = {**below, **family.members}


def requirements(design: Design, stated: Iterable[str]) -> tuple[str, ...]:
    """Return what a family's members satisfy: what its design requires, then what it states."""
    return tuple(dict.fromkeys((*design.declared.requires, *stated)))


def check_declared(entry: FamilyEntry, parameters: Collection[str]) -> None:
    """Check what a family declares.

    Raises
    ------
    XpuConfigError
        A value is not constant for a member, or a member is named that the family lacks.
    """
    occupancy = entry.values.get("occupancy", {})
    if "occupancy" in entry.values and len(occupancy) != 1:
        raise entry.place("occupancy").error(
            f"found {', '.join(occupancy) or 'nothing'}; allowed: max_threads or max_waves, one "
            "of them"
        )
    values = [(value, entry.place("occupancy", name)) for name, value in occupancy.items()]
    if "wave" in entry.values:
        values.append((entry.values["wave"], entry.place("wave")))
    for value, place in values:
        try:
            constant_expression(value, parameters)
        except XpuConfigError as error:
            raise place.error(str(error)) from None
    for key in ("unlowered", "unbounded"):
        for each in entry.values.get(key, ()):
            for member in each.get("members", ()):
                if member not in entry.members and member != PREPARATION:
                    place = entry.place(key).below(each["item"], "members")
                    allowed = [*entry.members, PREPARATION]
                    raise place.error(f"found {shown(member)}; {nearest(member, allowed)}")


def declarations(values: Mapping[str, Any]) -> Declarations:
    """Return what a family's checked values declare."""
    return Declarations(
        **values.get("occupancy", {}),
        wave=values.get("wave"),
        fast_math=values.get("fast_math"),
        unlowered=tuple(_made(Unlowered, each) for each in values.get("unlowered", ())),
        unbounded=tuple(_made(Unbounded, each) for each in values.get("unbounded", ())),
    )


def stated(declared: Declarations) -> dict[str, Any]:
    """Return a family's declarations as its keys in TOML; the inverse of `declarations`."""
    occupancy = {"max_threads": declared.max_threads, "max_waves": declared.max_waves}
    table = {
        "occupancy": _present(occupancy),
        "wave": declared.wave,
        "fast_math": declared.fast_math,
        "unlowered": [_listed(each) for each in declared.unlowered],
        "unbounded": [_listed(each) for each in declared.unbounded],
    }
    return {key: value for key, value in table.items() if value not in (None, [], {})}


def _made(kind: type[Any], table: Mapping[str, Any]) -> Any:
    return kind(**{key: tuple(it) if isinstance(it, list) else it for key, it in table.items()})


def _listed(declaration: Unlowered | Unbounded) -> dict[str, Any]:
    table = attrs.asdict(declaration, filter=lambda _field, value: value != ())
    return {key: list(it) if isinstance(it, tuple) else it for key, it in table.items()}


def _present(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
