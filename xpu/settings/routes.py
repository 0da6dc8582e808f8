"""Families of routes made of the merged tables: families that stand for one another.

Whatever a route is, callers give it the same arrays, and prepared weights serve all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import attrs

from xpu.expressions import Names
from xpu.model import Constant, Family, Route, nearest
from xpu.settings.build import Vocabulary
from xpu.settings.formulas import checked
from xpu.settings.merge import Entry, FamilyEntry
from xpu.settings.places import Place, shown

_ALIKE: Final = (
    "routes take the same arrays: to change one of them, declare a family of another name that is "
    "like it"
)
_OF_A_DESIGN: Final = ("design", "constants", "default", "cap", "requires")
_NO_FACTS: Final = Names(device=(), kernel=(), member=(), problem=(), launch=())


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
        _check_alike(entry, awake, entries, families, vocabulary)
        routes = [Route(families[it.values["family"]], it.values.get("when")) for it in awake]
        buckets = {"buckets": entry.values.get("buckets", {})}
        made[name] = Family.of_routes(name, problem, routes, **buckets)
    return made, asleep


def _refuse_keys_of_a_design(entry: FamilyEntry) -> None:
    stated: list[str] = [key for key in _OF_A_DESIGN if key in entry.values]
    stated += ["members"] if entry.members else []
    if not stated:
        return
    there, last = entry.place(stated[0]), entry.files[""]
    # Who wrote last is told of what they wrote.
    theirs = [route.place() for route in entry.routes.values() if route.place().file == last]
    if theirs and there.file != last:
        raise theirs[0].error(
            f"found a route of a family whose {stated[0]!r} stands in {there.file}; a family has "
            "routes or a design with members: declare a family of another name for the routes"
        )
    raise there.error(
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
    if not checked(text, place, attrs.evolve(_NO_FACTS, problem=sizes)).is_condition:
        raise place.error(
            f"found {shown(text)}, which is a figure; allowed: a condition, for instance "
            f"problem.{next(iter(sizes))} <= 16"
        )


def _check_alike(
    entry: FamilyEntry,
    routes: list[Entry],
    entries: Mapping[str, FamilyEntry],
    families: Mapping[str, Family],
    vocabulary: Vocabulary,
) -> None:
    """Check that each route takes what the first one takes, and the family's sizes."""
    first = families[routes[0].values["family"]]
    for route in routes:
        family = families[route.values["family"]]
        if family.problem != tuple(entry.values["problem"]):
            place = _changed("problem", entries[family.name], route) or entry.place("problem")
            raise place.error(
                f"family {entry.path[-1]!r} takes {', '.join(entry.values['problem'])}; its route "
                f"{family.name!r} takes {', '.join(family.problem)}; {_ALIKE}"
            )
        for what, here, wanted in _traits(family, first, vocabulary):
            changed = (_changed("constants", entries[it.name], route) for it in (family, first))
            place = next(filter(None, changed), route.place("family"))
            raise place.error(
                f"{family.name!r} is a route of {entry.path[-1]!r} beside {first.name!r}, and its "
                f"{what} {here}, those of the other {wanted}; {_ALIKE}"
            )


def _changed(key: str, entry: FamilyEntry, route: Entry) -> Place | None:
    """Return where a user's file, other than the route's own, gave a key of a route's family."""
    place = entry.place(key)
    is_another = key in entry.files and place.file != route.place().file
    return place if is_another and place.file.is_users else None


def _traits(
    family: Family, first: Family, vocabulary: Vocabulary
) -> Iterator[tuple[str, str, str]]:
    """Yield each trait in which two families differ: its name, and what it is of either."""
    here, there = (
        vocabulary.designs[it.design].for_constants(it.constants) for it in (family, first)
    )
    if _stated(family, vocabulary) != _stated(first, vocabulary):
        yield "constants are", _pairs(family.constants), _pairs(first.constants)
    if here.arguments != there.arguments:
        yield "arguments are", _arguments(here), _arguments(there)
    if not _is_same(here.preparation, there.preparation):
        yield "weights are prepared", _prepared(here), _prepared(there)


def _stated(family: Family, vocabulary: Vocabulary) -> Mapping[str, Constant]:
    return {**vocabulary.designs[family.design].default_constants, **family.constants}


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
