"""``xpu store``: the remembered answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpu.cli.groups import NamingGroup
from xpu.cli.output import json_option, print_json, print_table
from xpu.cli.places import store_directory
from xpu.errors import XpuConfigError, XpuError


@click.group(cls=NamingGroup)
def store() -> None:
    """Look at the remembered answers, or remove them."""


@store.command()
@json_option
def path(as_json: bool) -> None:
    """Print the directory of answers."""
    directory = str(_directory())
    if as_json:
        print_json({"store": directory})
    else:
        click.echo(directory)


@store.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List every answer of every device."""
    from xpu.store import stored_entries

    entries = stored_entries(_directory())
    for entry in entries:
        if entry.fault:
            click.echo(f"xpu: {entry.path}: {entry.fault}; it counts as no answer", err=True)
    whole = [entry for entry in entries if not entry.fault]
    if as_json:
        print_json([_document(entry) for entry in whole])
        return
    print_table(
        str(_directory()),
        ["name", "value", "device", "part", "build", "notes"],
        [
            [
                entry.name,
                entry.value,
                entry.device_key,
                entry.part,
                entry.build_id,
                [f"{key} {value}" for key, value in entry.notes.items()],
            ]
            for entry in whole
        ],
    )


@store.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show the answers of one NAME, as `xpu store list` gives it."""
    from xpu.store import stored_entries

    entries = [entry for entry in stored_entries(_directory()) if not entry.fault]
    found = [_document(entry) for entry in entries if entry.name == name]
    if not found:
        raise _unknown(name, {entry.name for entry in entries})
    if as_json:
        print_json(found)
        return
    for document in found:
        print_table(name, ["", "value"], list(document.items()))


@store.command()
@click.argument("names", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Remove every answer.")
@json_option
def remove(names: tuple[str, ...], is_all: bool, as_json: bool) -> None:
    """Remove answers by NAME for every device, or all of them with --all."""
    from xpu.store import remove_entries, stored_entries

    if bool(names) == is_all:
        raise click.UsageError("give names, or --all")
    known = {entry.name for entry in stored_entries(_directory())}
    for name in names:
        if name not in known:
            raise _unknown(name, known)
    removed = remove_entries(_directory(), None if is_all else names)
    if as_json:
        print_json({"removed": [entry.name for entry in removed]})
    else:
        click.echo(f"removed {len(removed)}")


def _directory() -> Path:
    directory = store_directory()
    if directory is None:
        raise XpuConfigError(
            "XPU_STORE is set and empty, which means no store; name a directory or unset it"
        )
    return directory


def _unknown(name: str, known: set[str]) -> XpuError:
    from xpu.model import nearest

    hint = nearest(name, known) if known else "the store is empty; fill it with: xpu probe run"
    return XpuError(f"no answer is called {name!r}; {hint}")


def _document(entry: Any) -> dict[str, Any]:
    return {
        **entry.notes,
        "device_key": entry.device_key,
        "part": entry.part,
        "name": entry.name,
        "value": entry.value,
        "build_id": entry.build_id,
    }
