"""Configuration written back as TOML: what all layers said together, in files of their own.

A bundle carries these files. Reading them gives the same families, rules, policies and plans.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import attrs

from xpu.model import Family, Member
from xpu.settings.declared import stated
from xpu.settings.settings import Settings


def written(settings: Settings, families: Collection[str]) -> dict[str, str]:
    """Return the text of each file by its name, with the families of these names alone.

    Probe plans come along as far as they look at one of the families.
    """
    import tomli_w

    kept = {name: each for name, each in settings.families.items() if name in families}
    tables: dict[str, Any] = {
        "families": {name: _family(each) for name, each in kept.items()},
        "rules": [_stated(rule) for rule in settings.rules],
        "buckets": {
            name: _stated(policy, "name")
            for name, policy in settings.buckets.items()
            if name != "exact"
        },
        "probes": {
            name: _stated(attrs.evolve(plan, families=looked_at), "name")
            for name, plan in settings.probes.items()
            if (looked_at := tuple(each for each in plan.families if each in kept))
        },
    }
    return {f"{name}.toml": tomli_w.dumps({name: table}) for name, table in tables.items()}


def _family(family: Family) -> dict[str, Any]:
    if family.routes:
        # Design, constants and members are those of its routes.
        table = {"problem": list(family.problem), "buckets": dict(family.buckets)}
        routes = [{"family": it.family.name, "when": it.when} for it in family.routes]
        return {**table, "routes": [_present(route) for route in routes]}
    table = {**_stated(family, "name", "members", "routes", "declared"), **stated(family.declared)}
    return {**table, "members": [_member(member) for member in family.members]}


def _member(member: Member) -> dict[str, Any]:
    return {**_stated(member, "parameters"), **member.parameters}


def _stated(item: attrs.AttrsInstance, *left_out: str) -> dict[str, Any]:
    """Return what an object says beyond what it would say anyway."""
    fields = [each for each in attrs.fields(type(item)) if each.name not in left_out]
    values = {field.name: _plain(getattr(item, field.name)) for field in fields}
    return {
        field.name: values[field.name]
        for field in fields
        if values[field.name] is not None and values[field.name] != _default(field)
    }


def _default(field: Any) -> Any:
    if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever attrs says
        return _plain(field.default.factory())
    return _plain(field.default)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _present(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
