"""``xpu families``: what the configuration declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from xpu.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from xpu.model import Family, Member


@click.command()
@json_option
def families(as_json: bool) -> None:
    """List kernel families with their members."""
    from xpu.building import settings_for
    from xpu.registry import default_registry

    settings = settings_for(default_registry())
    if as_json:
        print_json([_document(family) for family in settings.families.values()])
        return
    for family in settings.families.values():
        _print(family)
    for name, reason in settings.dormant.items():
        click.echo(f"{name} cannot serve: {reason}")


def _document(family: Family) -> dict[str, Any]:
    if family.routes:
        return {
            "name": family.name,
            "problem": list(family.problem),
            "buckets": dict(family.buckets),
            "routes": [
                {"family": route.family.name, "when": route.when} for route in family.routes
            ],
        }
    return {
        "name": family.name,
        "design": family.design,
        "problem": list(family.problem),
        "constants": dict(family.constants),
        "buckets": dict(family.buckets),
        "default": dict(family.default),
        "cap": family.cap,
        "members": [
            {
                "name": member.name,
                "dialects": None if member.dialects is None else list(member.dialects),
                **member.parameters,
            }
            for member in family.members
        ],
    }


def _print(family: Family) -> None:
    if family.routes:
        print_table(
            f"{family.name}: routes, problem {' x '.join(family.problem)}",
            ["route", "dialects", "when"],
            [
                [route.family.name, _dialects(route.member), route.when or "always"]
                for route in family.routes
            ],
        )
        return
    constants = ", ".join(f"{key} = {value}" for key, value in family.constants.items())
    design = f"{family.design} ({constants})" if constants else family.design
    print_table(
        f"{family.name}: {design}, problem {' x '.join(family.problem)}",
        ["member", "dialects", "default of", "parameters"],
        [
            [
                member.name,
                _dialects(member),
                [dialect for dialect, name in family.default.items() if name == member.name],
                [f"{key} {value}" for key, value in member.parameters.items()],
            ]
            for member in family.members
        ],
    )


def _dialects(member: Member) -> str | list[str]:
    return "all" if member.dialects is None else list(member.dialects)
