"""Expressions of the configuration, checked where they stand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from xpu.errors import XpuConfigError
from xpu.expressions import Expression, Names
from xpu.model import Rule
from xpu.settings.merge import Entry
from xpu.settings.places import Place, shown

_ANY: Final = Names()


def checked(
    text: str | int | float, place: Place, names: Names = _ANY, *, local: Collection[str] = ()
) -> Expression:
    """Read an expression; without `names` only its syntax is checked.

    Raises
    ------
    XpuConfigError
        It is not an expression, or names what nobody declares.
    """
    try:
        return Expression(text, names, local)
    except XpuConfigError as error:
        raise place.error(str(error)) from None


def build_rules(entries: Iterable[Entry], names: Names = _ANY) -> tuple[Rule, ...]:
    """Make the rules, in order.

    Raises
    ------
    XpuConfigError
        An expression is wrong, or a rule neither prunes nor records.
    """
    return tuple(_rule(entry, names) for entry in entries)


def _rule(entry: Entry, names: Names) -> Rule:
    values = entry.values
    if "prune_when" not in values and not values.get("records"):
        raise entry.place().error("found neither 'prune_when' nor 'records'; it needs one of them")
    figures = [key for key in ("need", "limit") if key in values]
    for key in figures:
        checked(values[key], entry.place(key), names)
    if "prune_when" in values:
        checked(values["prune_when"], entry.place("prune_when"), names, local=figures)
    for key, text in values.get("records", {}).items():
        checked(text, entry.place("records", key), names, local=figures)
    return Rule(**values)


def hold_for(
    requires: Iterable[str], family: Entry, members: Iterable[Entry], names: Names
) -> None:
    """Check that every member satisfies what its family requires.

    Raises
    ------
    XpuConfigError
        A requirement is false for a member, or absent: what cannot be told is not zero.
    """
    place = family.place("requires")
    expressions = [checked(text, place, names) for text in requires]
    for member in members:
        figures = {key: value for key, value in member.values.items() if type(value) is int}
        scope = {f"member.{key}": value for key, value in figures.items()}
        for expression in expressions:
            _holds(expression, scope, figures, member, place)


def _holds(
    expression: Expression,
    scope: Mapping[str, Any],
    figures: Mapping[str, int],
    member: Entry,
    required: Place,
) -> None:
    value = expression.evaluate(scope)
    if value:
        return
    has = ", ".join(f"{key} = {figure}" for key, figure in figures.items()) or "no parameter"
    said = "is absent: it reads what this member does not set" if value is None else "is not met"
    place = member.place()
    by = "" if required.file == place.file else f"; {required.file} requires it"
    raise place.error(f"requires {shown(expression.text)} {said}; the member has {has}{by}")
