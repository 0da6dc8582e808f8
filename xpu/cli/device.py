"""``xpu device``: the facts of each device, as its driver reports them."""

from __future__ import annotations

from typing import Any

import attrs
import click

from xpu.cli.output import json_option, print_json, print_table
from xpu.errors import XpuError


@click.command()
@click.option("--backend", help="Backend; every available one when left out.")
@json_option
@click.pass_context
def device(ctx: click.Context, backend: str | None, as_json: bool) -> None:
    """Show what each device reports; what a driver does not tell is absent.

    A backend that cannot list its devices is told of; the status is 1 then.
    """
    from xpu.building import availability_of, pick_backend
    from xpu.registry import default_registry

    registry = default_registry()
    if backend is not None:
        chosen = [pick_backend(registry, backend)]
    else:
        everyone = map(registry.backend, registry.backends)
        chosen = [one for one in everyone if availability_of(one).is_available]
    found: list[dict[str, Any]] = []
    errors: list[XpuError] = []
    for one in chosen:
        try:
            found += [_facts(facts) for facts in one.devices()]
        except XpuError as error:
            errors.append(error)
    if as_json:
        print_json(found)
    else:
        _print(found, errors)
    for each in errors:
        click.echo(f"xpu: {each}", err=True)
    if errors:
        ctx.exit(1)


def _print(found: list[dict[str, Any]], errors: list[XpuError]) -> None:
    for number, facts in enumerate(found):
        print_table(f"{facts['backend']}, device {number}", ["fact", "value"], list(facts.items()))
    if not found and not errors:
        click.echo("no device; see: xpu doctor")


def _facts(facts: Any) -> dict[str, Any]:
    named = attrs.asdict(facts, recurse=False)
    further = named.pop("further")
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in {**named, **further}.items()
        if value is not None
    }
