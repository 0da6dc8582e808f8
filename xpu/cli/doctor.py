"""``xpu doctor``: what is installed, what works, and what would mend what does not."""

from __future__ import annotations

from typing import Any

import attrs
import click

from xpu import __version__
from xpu.cli.output import json_option, print_json, print_table
from xpu.cli.places import store_directory


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Show plugins, backends, configuration and directories.

    A backend that is not available is no failure: the table says what would mend it.
    """
    from xpu.building import settings_for
    from xpu.registry import default_registry
    from xpu.spec import build_cache_directory

    registry = default_registry()
    settings = settings_for(registry)
    document = {
        "version": __version__,
        "plugins": [attrs.asdict(record) for record in registry.records],
        "backends": [_backend(registry.backend(name)) for name in registry.backends],
        "config": [str(path) for path in settings.origins],
        "dormant": dict(settings.dormant),
        "store": None if store_directory() is None else str(store_directory()),
        "build_cache": str(build_cache_directory()),
    }
    if as_json:
        print_json(document)
        return
    _print(document)


def _backend(backend: Any) -> dict[str, Any]:
    from xpu.building import availability_of

    state = availability_of(backend)
    devices: list[str] = []
    reason = state.reason
    if state.is_available:
        try:
            devices = [facts.name or facts.backend for facts in backend.devices()]
        except Exception as error:
            reason = f"its devices cannot be listed: {error}"
    return {
        "name": backend.name,
        "available": state.is_available,
        "reason": reason,
        "fix": state.fix,
        "devices": devices,
    }


def _print(document: dict[str, Any]) -> None:
    click.echo(f"xpu {document['version']}")
    print_table(
        "Plugins",
        ["name", "distribution", "state", "stage", "cause"],
        [list(record.values()) for record in document["plugins"]],
    )
    print_table(
        "Backends",
        ["name", "available", "devices", "reason", "fix"],
        [
            [
                backend["name"],
                backend["available"],
                backend["devices"],
                backend["reason"],
                backend["fix"],
            ]
            for backend in document["backends"]
        ],
    )
    for family, reason in document["dormant"].items():
        click.echo(f"family {family} cannot serve: {reason}")
    for path in document["config"]:
        click.echo(f"config       {path}")
    click.echo(f"store        {document['store'] or 'none: XPU_STORE is empty'}")
    click.echo(f"build cache  {document['build_cache']}")
