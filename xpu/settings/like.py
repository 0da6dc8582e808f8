"""Families that are like another one: what they do not state themselves is the other's.

The other is taken as the layers up to the file that says ``like`` have it: a member that a
later layer adds to it, in a dialect of somebody else's say, knows nothing of the constants of
the family that is like it. Called by `xpu.settings.settings`, layer by layer, then once.
"""

from __future__ import annotations

from collections.abc import Mapping

from xpu.model import nearest
from xpu.settings.merge import FamilyEntry
from xpu.settings.places import shown


def take_others(families: Mapping[str, FamilyEntry]) -> None:
    """Remember, for each family that the last layer says is like another, that one as it is.

    Raises
    ------
    XpuConfigError
        There is no other of that name, or it is like a third one.
    """
    for family in families.values():
        if "like" not in family.values:
            continue
        place, name = family.place("like"), family.values["like"]
        other = families.get(name)
        if other is None or other is family:
            others = [each for each in families if families[each] is not family]
            raise place.error(f"found {shown(name)}; {nearest(name, others)}")
        is_like = other.is_like is not None or "like" in other.values
        if is_like or other.routes:
            what = "is like another family itself" if is_like else "has routes and no design"
            raise place.error(
                f"found {shown(name)}, which {what}; allowed: a family that states its own design"
            )
        family.is_like = _copied(other)
    for family in families.values():
        family.values.pop("like", None)


def completed(families: Mapping[str, FamilyEntry]) -> dict[str, FamilyEntry]:
    """Return the families with what they have of others, under what they state themselves."""
    return {
        name: family if family.is_like is None else _over(family, family.is_like)
        for name, family in families.items()
    }


def _copied(entry: FamilyEntry) -> FamilyEntry:
    return FamilyEntry(entry.path, dict(entry.values), dict(entry.files), dict(entry.members))


def _over(upper: FamilyEntry, lower: FamilyEntry) -> FamilyEntry:
    """Put one entry over another, as a layer is put over a lower one."""
    values = dict(lower.values)
    for key, value in upper.values.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    members = {**lower.members, **upper.members}
    files = {**lower.files, **upper.files}
    return FamilyEntry(upper.path, values, files, members, routes=upper.routes)
