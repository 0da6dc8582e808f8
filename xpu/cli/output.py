"""What commands share when they print: one JSON document, or tables for a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add ``--json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on standard output."
    )(command)


def device_options(command: Command) -> Command:
    """Add ``--backend`` and ``--device``."""
    numbered = click.option(
        "--device", default=0, show_default=True, type=click.IntRange(min=0), help="Device number."
    )(command)
    return click.option("--backend", help="Backend; the first available one when left out.")(
        numbered
    )


def memory_option(command: Command) -> Command:
    """Add ``--memory``."""
    return click.option(
        "--memory",
        type=click.Choice(["warm", "cold"]),
        help="Time with warm caches, or with inputs rotated past the last-level cache.",
    )(command)


def print_json(document: Any) -> None:
    """Print one JSON document; an absent figure is null, one that is not finite too."""
    click.echo(json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table as wide as it needs to be; nothing is cut, in a pipe neither."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    console = Console(file=sys.stdout, soft_wrap=False)
    if not console.is_terminal:
        console.width = 400
    console.print(table)


def cell(value: Any) -> str:
    """Write one value for a table; absent is a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def nanoseconds(value: float | None) -> str:
    """Write a time with a unit that suits it."""
    if value is None:
        return "-"
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        if value < limit:
            return f"{value / (limit / 1e3):.4g} {unit}"
    return f"{value / 1e9:.4g} s"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
