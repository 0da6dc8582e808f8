"""``xpu manifest``: what the compiler made of a kernel, alone or against another build of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xpu.cli.groups import NamingGroup
from xpu.cli.output import cell, json_option, print_json, print_table

if TYPE_CHECKING:
    from xpu.cli.manifest_at import Finder, Found
    from xpu.model import DeviceFacts

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(cls=NamingGroup)
def manifest() -> None:
    """Show what the compiler made of a kernel, or what two builds differ in.

    A kernel is named as FAMILY.MEMBER, with its target behind an @ where that is another than
    --target says, or by the file of its manifest, as `xpu build --out` writes it.
    """


def _place_options(command: Command) -> Command:
    named = click.option("--backend", help="Backend; that of the target when left out.")(command)
    return click.option("--target", help="Target of the compiler; this machine's when left out.")(
        named
    )


def _facts_option(command: Command) -> Command:
    return click.option(
        "--facts",
        "facts_path",
        type=click.Path(path_type=Path),
        help="Say for the device in a facts file how many blocks a multiprocessor holds.",
    )(command)


@manifest.command()
@click.argument("kernel")
@_place_options
@_facts_option
@click.option("--problem", help="Sizes, where the launch depends on them; 4096 each if left out.")
@json_option
def show(
    kernel: str,
    backend: str | None,
    target: str | None,
    facts_path: Path | None,
    problem: str | None,
    as_json: bool,
) -> None:
    """Show the manifest of a KERNEL; it is built first where that has not been done."""
    from xpu.cli.manifest_at import Finder

    finder = Finder(backend, target, problem)
    found = finder.find(kernel)
    facts = None if facts_path is None else _facts(finder, facts_path, found)
    document = _document(finder, found, facts)
    if as_json:
        print_json(document)
    else:
        _print(document)


@manifest.command()
@click.argument("first")
@click.argument("second")
@_place_options
@_facts_option
@click.option("--problem", help="Sizes, where the launch depends on them; 4096 each if left out.")
@click.option("--code", is_flag=True, help="Compare the generated code, too.")
@json_option
def diff(
    first: str,
    second: str,
    backend: str | None,
    target: str | None,
    facts_path: Path | None,
    problem: str | None,
    code: bool,
    as_json: bool,
) -> None:
    """Show in what the manifests of two kernels differ: of two builds, targets or members."""
    from xpu.cli.manifest_at import Finder
    from xpu.cli.manifest_code import compared, print_code

    finder = Finder(backend, target, problem)
    pair = (finder.find(first), finder.find(second))
    # Not of one target or the other: who compares two of them for one device means to.
    facts = None if facts_path is None else _facts(finder, facts_path)
    left, right = (_flat(_document(finder, each, facts)) for each in pair)
    rows = [
        [name, left.get(name), right.get(name)]
        for name in dict.fromkeys((*left, *right))
        if left.get(name) != right.get(name)
    ]
    both = compared(*pair) if code else None
    if as_json:
        fields = [dict(zip(("field", "first", "second"), row, strict=True)) for row in rows]
        print_json({"fields": fields} | ({} if both is None else {"code": both.document()}))
        return
    if rows:
        print_table("fields that differ", ["field", first, second], rows)
    else:
        click.echo("the manifests say the same")
    if both is not None:
        print_code(both)


def _facts(finder: Finder, path: Path, *kernels: Found) -> DeviceFacts:
    from xpu.cli.facts_file import check_target, read_facts

    facts = read_facts(path, finder.further_facts)
    for each in kernels:
        if each.backend is not None:
            check_target(path, facts, each.backend, each.manifest.target)
    return facts


def _document(finder: Finder, found: Found, facts: DeviceFacts | None) -> dict[str, Any]:
    """Return a manifest's figures, and what the facts of a device say of them."""
    import attrs

    from xpu.filter import occupancy

    kept = found.manifest
    document = attrs.asdict(kept, recurse=True)
    document["footprint"].pop("code_hash")
    launch = ("threads", "dynamic_shared_bytes")
    document["launch"] = {name: found.parameters.get(name) for name in launch}
    if facts is not None:
        said = occupancy(finder.settings.rules, facts, kept.footprint, found.parameters)
        document["occupancy"] = {"device": facts.name, **attrs.asdict(said)}
    return document


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Return one value a line: those of a table under its name, those of a list by its name.

    Of entries with one name all that they say stands in one line.
    """
    lines: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            lines |= {f"{key}.{name}": _text(each) for name, each in value.items()}
        elif isinstance(value, tuple | list) and all(isinstance(each, dict) for each in value):
            said: dict[str, list[str]] = {}
            for each in value:
                name, *rest = each.values()
                said.setdefault(f"{key}.{name}", []).append(_text(rest) or "")
            lines |= {name: "; ".join(texts) or None for name, texts in said.items()}
        else:
            lines[key] = _text(value)
    return lines


def _text(value: Any) -> str | None:
    if isinstance(value, tuple | list):
        return ", ".join(cell(each) for each in value) or None
    return None if value is None or value == "" else cell(value)


def _print(document: dict[str, Any]) -> None:
    heads = ("kernel", "target", "entry", "compiler", "code_hash", "schema")
    rows = [[name, document[name]] for name in heads]
    for table in ("footprint", "launch", "occupancy"):
        values = document.get(table, {})
        rows += [[name, _text(value)] for name, value in values.items() if value not in (None, "")]
    print_table(document["kernel"], ["", "value"], rows)
    if document["buffers"]:
        print_table(
            "buffers",
            ["buffer", "mode", "from"],
            [
                [each["name"], each["mode"], "the code" if each["is_derived"] else "declared"]
                for each in document["buffers"]
            ],
        )
    if document["launch_sites"]:
        print_table(
            "launches",
            ["where", "threads"],
            [[each["where"], each["threads"]] for each in document["launch_sites"]],
        )
    if document["operations"]:
        print_table(
            "matrix and dot operations",
            ["instruction", "tier", "places"],
            [
                [each["instruction"], each["tier"], each["places"]]
                for each in document["operations"]
            ],
        )
