"""Families of routes made of the merged tables: families that stand for one another.

Whatever a route is, callers give it the same arrays, and prepared weights serve all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from xpu.expressions import Names
from xpu.model import Family, Route, nearest
from xpu.settings.build import Vocabulary
from xpu.settings.formulas import checked
from xpu.settings.merge import Entry, FamilyEntry
from xpu.settings.places import Place, shown

_OF_A_DESIGN: Final = ("design", "constants", "default", "cap", "requires")
_NOTHING: Final[frozenset[str]] = frozenset()


def build_routes(
    entries: Mapping[str, FamilyEntry],
    families: Mapping[str, Family],
    dormant: Mapping[str, str],
    vocabulary: Vocabulary,
) -> tuple[dict[str, Family], dict[str, str]]:
    """Make the families of routes of those that have a design; say which are dormant and why.

    A route whose family is dormant is left out.

    Raises
    ------
    XpuConfigError
        A family of routes cannot be used: it states what belongs to a design, or a route is
        not known, is itself a family of routes, or does not stand for the others.
    """
    made: dict[str, Family] = {}
    asleep: dict[str, str] = {}
    for name, entry in entries.items():
        if not entry.routes:
            continue
        _refuse_keys_of_a_design(entry)
        for route in entry.routes.values():
            _check_route(route, entry, entries)
        awake = [it for key, it in entry.routes.items() if key in families]
        if not awake:
            reasons = (f"{key}: {dormant[key]}" for key in entry.routes)
            asleep[name] = f"none of its routes can serve; {'; '.join(reasons)}"
            continue
        problem = tuple(entry.values["problem"])
        _check_alike(entry, awake, families, vocabulary)
        routes = [Route(families[it.values["family"]], it.values.get("when")) for it in awake]
        buckets = {"buckets": entry.values.get("buckets", {})}
        made[name] = Family.of_routes(name, problem, routes, **buckets)
    return made, asleep


def _refuse_keys_of_a_design(entry: FamilyEntry) -> None:
    stated: list[str] = [key for key in _OF_A_DESIGN if key in entry.values]
    stated += ["members"] if entry.members else []
    if stated:
        raise entry.place(stated[0]).error(
            f"found {stated[0]!r} beside 'routes'; a family has routes or a design with members: "
            "remove one of the two"
        )


def _check_route(route: Entry, entry: FamilyEntry, entries: Mapping[str, FamilyEntry]) -> None:
    name, place = route.values["family"], route.place("family")
    allowed = [key for key, other in entries.items() if not other.routes]
    if name not in entries:
        raise place.error(f"found {shown(name)}; {nearest(name, allowed)}")
    if entries[name].routes:
        raise place.error(
            f"found {shown(name)}, which has routes itself; allowed: a family with a design: "
            f"{', '.join(sorted(allowed))}"
        )
    if "when" in route.values:
        _check_when(route.values["when"], route.place("when"), entry.values["problem"])


def _check_when(text: str, place: Place, sizes: Collection[str]) -> None:
    names = Names(device=_NOTHING, kernel=_NOTHING, member=_NOTHING, problem=sizes)
    if "launch." in checked(text, place, names).text:
        allowed = ", ".join(f"problem.{size}" for size in sizes)
        raise place.error(f"found {shown(text)}; no launch is known here; allowed: {allowed}")


def _check_alike(
    entry: FamilyEntry,
    routes: list[Entry],
    families: Mapping[str, Family],
    vocabulary: Vocabulary,
) -> None:
    """Check that each route takes what the first one takes, and the family's sizes."""
    first = families[routes[0].values["family"]]
    for route in routes:
        family = families[route.values["family"]]
        if family.problem != tuple(entry.values["problem"]):
            raise entry.place("problem").error(
                f"found {', '.join(entry.values['problem'])}; route {family.name!r} takes "
                f"{', '.join(family.problem)}"
            )
        for what, here, wanted in _traits(family, first, vocabulary):
            raise route.place("family").error(
                f"found {shown(family.name)}, whose {what} {here}; allowed: a family that takes "
                f"the arrays of {first.name!r}, whose {what} {wanted}"
            )


def _traits(
    family: Family, first: Family, vocabulary: Vocabulary
) -> Iterator[tuple[str, str, str]]:
    """Yield each trait in which two families differ: its name, and what it is of either."""
    here, there = (
        vocabulary.designs[it.design].for_constants(it.constants) for it in (family, first)
    )
    if family.constants != first.constants:
        yield "constants are", _pairs(family.constants), _pairs(first.constants)
    if here.arguments != there.arguments:
        yield "arguments are", _arguments(here), _arguments(there)
    if not _is_same(here.preparation, there.preparation):
        yield "weights are prepared", _prepared(here), _prepared(there)


def _is_same(here: Any, there: Any) -> bool:
    """Whether two preparations are one: the same object, equal ones, or alike in all they hold."""
    if here == there:
        return True
    if type(here) is not type(there) or any("__eq__" in vars(it) for it in type(here).mro()[:-1]):
        return False  # its author says when two are equal
    return bool(vars(here) == vars(there))


def _pairs(constants: Mapping[str, object]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in constants.items()) or "none"


def _arguments(design: Any) -> str:
    return ", ".join(f"{it.name} ({it.dtype}, {it.access})" for it in design.arguments)


def _prepared(design: Any) -> str:
    made = design.preparation
    return "not at all" if made is None else f"by {type(made).__name__} of design {design.name!r}"
