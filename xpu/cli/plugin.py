"""``xpu plugin``: begin a plugin of one's own."""

from __future__ import annotations

from pathlib import Path

import attrs
import click

from xpu.cli.groups import NamingGroup
from xpu.cli.output import json_option, print_json
from xpu.cli.skeleton import KINDS, write_skeleton


@click.group(cls=NamingGroup)
def plugin() -> None:
    """Begin a plugin of your own."""


@plugin.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Directory in which the plugin's folder is made; the current one when left out.",
)
@json_option
def new(kind: str, name: str, into: Path, as_json: bool) -> None:
    """Write a backend, family or probe called NAME that works and whose tests pass.

    The folder is a whole distribution. One that is there already is left as it is.
    """
    made = write_skeleton(kind, name, into)
    if as_json:
        print_json({**attrs.asdict(made), "directory": str(made.directory)})
        return
    click.echo(f"{made.directory}")
    for file in made.files:
        click.echo(f"  {file}")
    click.echo(f"Next: cd {made.directory} && pip install -e '.[dev]' && pytest")
