"""What commands share when they print: one JSON document, or tables for a person."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Command = TypeVar("Command", bound=Callable[..., Any])

ABSENT: Final = "-"
_MORE: Final = "… stands for more of a text: see --json, and of a compiler's: xpu build FAMILY"
_OUTPUT: Final = "xpu.output"
_UNBOUNDED: Final = 1_000_000
# Stands for a blank inside an item while rich folds at blanks; in no text of ours.
_GLUE: Final = "\ue000"
_GAP: Final = "   "
_HEAD: Final = 3
"""Lines of a table before its first row: a blank one, the heads, the rule."""


def json_option(command: Command) -> Command:
    """Add ``--json``; under it, only `print_json` writes to standard output."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=_keep_output_clean,
        help="Print one JSON document on standard output.",
    )(command)


def _keep_output_clean(ctx: click.Context, _: click.Parameter, as_json: bool) -> bool:
    """Send to standard error what a plugin prints: the document must stay the only one."""
    if as_json:
        ctx.meta[_OUTPUT] = sys.stdout
        ctx.with_resource(redirect_stdout(sys.stderr))
    return as_json


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
    """Print one JSON document; an absent figure is null, one that is not finite too.

    Only ASCII is written: the document is whole under any locale.
    """
    text = json.dumps(_finite(document), indent=2, allow_nan=False)
    click.echo(text, file=click.get_current_context().meta[_OUTPUT])


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table: folded to a terminal's width, in a pipe a line a row; nothing is cut.

    A column in which no row has anything is left out. A list is a cell whose items are not
    broken where it is folded; on a terminal too narrow for the table, lists stand under
    their row where that makes the rest fit.
    """
    rows = list(rows)
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        click.echo(f"{visible(title)}: none")
        return
    shown = [at for at in range(len(columns)) if any(row[at] != ABSENT for row in cells)]
    lines = _lines([columns[at] for at in shown], [[row[at] for at in shown] for row in cells])
    # FORCE_COLOR: as rich has it, a pipe that stands for a terminal.
    is_terminal = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    if is_terminal and max(map(len, lines)) > shutil.get_terminal_size().columns:
        listed = [at for at in shown if any(isinstance(row[at], list) for row in rows)]
        lines = _folded(columns, cells, shown, listed)
    lines = [line.replace(_GLUE, " ").rstrip() for line in lines]
    click.echo("\n".join([visible(title), *lines]))


def _lines(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Lay a table out, a line a row, in the form that `_folded` gives it; nothing is folded.

    Thousands of rows take milliseconds here, and seconds where they could be folded.
    """
    parts = [[cell.split("\n") for cell in row] for row in [heads, *cells]]
    widths = [max(len(line) for row in parts for line in row[at]) for at in range(len(heads))]
    made = []
    for row in parts:
        for line in range(max(map(len, row))):
            texts = [part[line] if line < len(part) else "" for part in row]
            made.append(" " + _GAP.join(map(str.ljust, texts, widths)))
    rule = " " + "─" * (sum(widths) + len(_GAP) * (len(widths) - 1) + 1)
    return ["", *made[: (first := max(map(len, parts[0])))], rule, *made[first:], ""]


def _folded(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    shown: Sequence[int],
    listed: Sequence[int],
) -> list[str]:
    """Lay a table out within a terminal's width; `listed` are the columns that hold lists."""
    from rich.console import Console

    console = Console(file=sys.stdout)
    rest = [at for at in shown if at not in listed]
    whole, short = (_table([columns[at] for at in ats], cells, ats) for ats in (shown, rest))
    # Lists can be put under a row only where each row is one line.
    is_even = bool(rest) and not any("\n" in row[at] for row in cells for at in rest)
    is_stacked = is_even and _fits(short, console)
    with console.capture() as capture:
        console.print(short if is_stacked else whole)
    lines = capture.get().splitlines()
    if is_stacked:
        at_row = _HEAD
        for row in cells:
            at_row += 1
            under = [f"{columns[at]}: {row[at]}" for at in listed if row[at] != ABSENT]
            folded = [line for text in under for line in _indented(text, console.width)]
            lines[at_row:at_row] = folded
            at_row += len(folded)
    return lines


def _table(heads: Sequence[str], cells: Sequence[Sequence[str]], ats: Sequence[int]) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, pad_edge=False)
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[at]) for at in ats))
    return table


def _fits(table: Table, console: Console) -> bool:
    natural = console.measure(table, options=console.options.update(width=_UNBOUNDED))
    return natural.maximum <= console.width


def _indented(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent="   ", subsequent_indent="     ", break_on_hyphens=False
    )


def cell(value: Any) -> str:
    """Write one value for a table; absent is a dash."""
    if value is None or value == "" or value == []:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell(item).replace(" ", _GLUE) for item in value)
    return f"{value:,.1f}" if isinstance(value, float) else visible(str(value))


def visible(text: str) -> str:
    """Escape what a terminal would act on; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def say_what_is_forced(family: str, member: str | None) -> None:
    """Say that the environment forces a member, where it does: no other serves a program then."""
    if member:
        click.echo(f"XPU_SHAPE_{family.upper()} forces {member}: it serves, whatever stands here")


def say_where_more_is(notes: Iterable[str]) -> None:
    """Say, once for all notes, where the rest is of those that are cut."""
    if any(note.endswith("…") for note in notes):
        click.echo(_MORE)


def nanoseconds(value: float | None) -> str:
    """Write a time with a unit that suits it."""
    if value is None:
        return "-"
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        if value < limit:
            return f"{value / (limit / 1e3):.4g} {unit}"
    return f"{value / 1e9:.4g} s"


def margin(permille: int | None, *, is_tie: bool | None) -> str:
    """Write how far the winner is ahead of the runner-up."""
    if permille is None:
        return ABSENT
    return f"{permille / 10:.1f} %{', tie' if is_tie else ''}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
