"""``xpu device``: the facts of each device, as its driver reports them."""

from __future__ import annotations

from typing import Any

import attrs
import click

from xpu.cli.output import json_option, print_json, print_table


@click.command()
@click.option("--backend", help="Backend; every available one when left out.")
@json_option
def device(backend: str | None, as_json: bool) -> None:
    """Show what each device reports; what a driver does not tell is absent."""
    from xpu.orchestrator import availability_of, pick_backend
    from xpu.registry import default_registry

    registry = default_registry()
    if backend is not None:
        chosen = [pick_backend(registry, backend)]
    else:
        chosen = [one for one in registry.backends.values() if availability_of(one).is_available]
    found = [_facts(facts) for one in chosen for facts in one.devices()]
    if as_json:
        print_json(found)
        return
    for number, facts in enumerate(found):
        print_table(f"{facts['backend']}, device {number}", ["fact", "value"], list(facts.items()))
    if not found:
        click.echo("no device; see: xpu doctor")


def _facts(facts: Any) -> dict[str, Any]:
    named = attrs.asdict(facts, recurse=False)
    further = named.pop("further")
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in {**named, **further}.items()
        if value is not None
    }
