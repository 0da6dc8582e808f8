"""``xpu families``: what the configuration declares."""

from __future__ import annotations

import click

from xpu.cli.output import json_option, print_json, print_table


@click.command()
@json_option
def families(as_json: bool) -> None:
    """List kernel families with their members."""
    from xpu.orchestrator import settings_for
    from xpu.registry import default_registry

    settings = settings_for(default_registry())
    document = [
        {
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
        for family in settings.families.values()
    ]
    if as_json:
        print_json(document)
        return
    for family in settings.families.values():
        constants = ", ".join(f"{key} = {value}" for key, value in family.constants.items())
        print_table(
            f"{family.name}: {family.design} ({constants}), problem {' x '.join(family.problem)}",
            ["member", "dialects", "default of", "parameters"],
            [
                [
                    member.name,
                    "all" if member.dialects is None else list(member.dialects),
                    [dialect for dialect, name in family.default.items() if name == member.name],
                    [f"{key} {value}" for key, value in member.parameters.items()],
                ]
                for member in family.members
            ],
        )
    for name, reason in settings.dormant.items():
        click.echo(f"{name} cannot serve: {reason}")
