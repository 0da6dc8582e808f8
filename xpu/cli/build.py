"""``xpu build``: compile members and show what the compiler made of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpu.cli.output import json_option, print_json, print_table
from xpu.errors import XpuBuildError, XpuError

if TYPE_CHECKING:
    from xpu.adaptor import Built, Called
    from xpu.model import Family
    from xpu.registry import Registry


@click.command()
@click.argument("families", nargs=-1)
@click.option("--backend", help="Backend; the first available one when left out.")
@click.option("--target", help="Target of the compiler; this machine's when left out.")
@click.option("--out", type=click.Path(path_type=Path), help="Copy code and manifests here.")
@json_option
@click.pass_context
def build(
    ctx: click.Context,
    families: tuple[str, ...],
    backend: str | None,
    target: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Build FAMILIES (all that the backend's dialect has, when none is named).

    Every member is tried and reported; the status is 1 when one fails.
    """
    from xpu.adaptor import Adaptor, BuildCache
    from xpu.orchestrator import pick_backend, settings_for
    from xpu.registry import default_registry

    registry = default_registry()
    settings = settings_for(registry)
    chosen = [settings.family(name) for name in families]
    # Compiling needs no device: a backend that is named is not asked for one.
    one = pick_backend(registry, None) if backend is None else registry.backend(backend)
    if not families:
        chosen = [
            family
            for family in settings.families.values()
            if registry.source_for(family.design, one.dialect) is not None
        ]
    chosen = _with_code(registry, one.dialect, chosen)
    adaptor = Adaptor(one, registry, BuildCache())
    wanted = target or adaptor.native_target()
    rows = [row for family in chosen for row in _built(adaptor, family, one.dialect, wanted, out)]
    if as_json:
        print_json(rows)
    else:
        _print(wanted, rows)
    if any(row["error"] for row in rows):
        ctx.exit(1)


def _with_code(registry: Registry, dialect: str, chosen: list[Family]) -> list[Family]:
    """Put the families of its routes in the place of a family that has no code of its own."""
    from xpu.registry import routes_in

    found: dict[str, Family] = {}
    for family in chosen:
        routes = [route.family for route in routes_in(registry, family, dialect)]
        found |= {each.name: each for each in (routes if family.routes else [family])}
    return list(found.values())


def _built(
    adaptor: Any, family: Family, dialect: str, target: str, out: Path | None
) -> list[dict[str, Any]]:
    members = family.for_dialect(dialect)
    kept = family.within_cap([member.name for member in members], dialect)
    results = adaptor.build(family, [one for one in members if one.name in kept], target)
    rows = []
    shown: set[str] = set()
    for name, result in results.items():
        row: dict[str, Any] = {"family": family.name, "member": name, "target": target, "error": ""}
        if isinstance(result, XpuBuildError):
            rows.append({**row, "error": str(result)})
            continue
        rows.append({**row, **_member_figures(result)})
        # Members of one source share what runs before them; it is shown once.
        fresh = [one for one in result.staging if one.code_hash not in shown]
        shown.update(one.code_hash for one in fresh)
        names = [one.kernel.removeprefix(f"{family.name}.") for one in fresh]
        rows += [
            {**row, "member": name, **_figures(one)} for name, one in zip(names, fresh, strict=True)
        ]
        if out is not None:
            for one in (result, *result.staging):
                _copy(one, out)
    rows.extend(
        {
            "family": family.name,
            "member": member.name,
            "target": target,
            "error": "",
            "status": f"capped at {family.cap}",
        }
        for member in members
        if member.name not in kept
    )
    return rows


def _member_figures(result: Built | Called) -> dict[str, Any]:
    from xpu.adaptor import Built

    if isinstance(result, Built):
        return _figures(result)
    # Whoever builds for another machine need not have the library that is called there.
    return {"status": f"calls {result.entry}", "library": result.library, "note": result.missing}


def _figures(built: Built) -> dict[str, Any]:
    facts = built.manifest.footprint
    return {
        "status": "cached" if built.was_cached else "built",
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "static_shared_bytes": facts.static_shared_bytes,
        "stack_bytes": facts.stack_bytes,
        "operations": [operation.instruction for operation in built.manifest.operations],
        "code_hash": built.manifest.code_hash,
        "compiler": built.manifest.compiler,
    }


def _copy(built: Built | Called, out: Path) -> None:
    from xpu.adaptor import Built, manifest_to_toml

    if not isinstance(built, Built):
        return
    stem = f"{built.manifest.kernel}.{built.manifest.target}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built.code, out / f"{stem}.code")
        (out / f"{stem}.toml").write_text(manifest_to_toml(built.manifest), "utf-8")
    except OSError as cause:
        reason = cause.strerror or cause
        raise XpuError(
            f"--out {out} cannot be written: {reason}; name another directory"
        ) from cause


def _print(target: str, rows: list[dict[str, Any]]) -> None:
    print_table(
        f"Target {target}",
        [
            "family",
            "member",
            "status",
            "registers",
            "spill B",
            "shared B",
            "stack B",
            "operations",
            "code",
        ],
        [
            [
                row["family"],
                row["member"],
                row.get("status", "failed"),
                row.get("registers"),
                row.get("spill_bytes"),
                row.get("static_shared_bytes"),
                row.get("stack_bytes"),
                row.get("operations"),
                row.get("code_hash", "")[:12],
            ]
            for row in rows
        ],
    )
    for row in rows:
        if row["error"]:
            click.echo(f"xpu: {row['error']}", err=True)
