"""Manifests as TOML: written with tomli-w, read back with every field checked."""

from __future__ import annotations

import tomllib
from typing import Any, Final, TypeVar

import attrs

from xpu.errors import XpuBuildError, XpuConfigError
from xpu.model import MANIFEST_SCHEMA, BufferAccess, KernelFacts, LaunchSite, Manifest, Operation

Record = TypeVar("Record")

_FIELDS: Final = attrs.fields_dict(Manifest).keys()

Records = dict[tuple[int, type], Any]
"""Records that were made of a list, by its number and their kind, with the list: while it is kept
no other has its number."""


def manifest_to_toml(manifest: Manifest) -> str:
    """Write a manifest; an absent fact stays absent, it is never written as 0."""
    import tomli_w

    return tomli_w.dumps(manifest_to_document(manifest))


def manifest_to_document(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest as tables, lists, texts and numbers."""
    footprint = _present(manifest.footprint)
    footprint.pop("code_hash", None)
    document: dict[str, Any] = {
        "schema": manifest.schema,
        "kernel": manifest.kernel,
        "target": manifest.target,
        "entry": manifest.entry,
        "code_hash": manifest.code_hash,
        "compiler": manifest.compiler,
        "footprint": footprint,
        "buffers": [attrs.asdict(buffer) for buffer in manifest.buffers],
        "operations": [_present(operation) for operation in manifest.operations],
        "launch_sites": [_present(site) for site in manifest.launch_sites],
    }
    if manifest.max_threads is not None:
        document["max_threads"] = manifest.max_threads
    return document


def manifest_from_toml(text: str, where: str) -> Manifest:
    """Read a manifest.

    Raises
    ------
    XpuBuildError
        The text is no manifest, or one of another schema version.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise XpuBuildError(f"{where}: not a manifest: {cause}") from cause
    except RecursionError:
        why = "values are nested too deeply"
        raise XpuBuildError(f"{where}: not a manifest: {why}") from None
    return manifest_from_document(document, where)


def manifest_from_document(
    document: dict[str, Any], where: str, made: Records | None = None
) -> Manifest:
    """Make a manifest of what `manifest_to_document` gives; raises as `manifest_from_toml`.

    Lists that `made` has records of are not looked through again; it is added to.
    """
    made = {} if made is None else made
    try:
        schema = document["schema"]
        if schema != MANIFEST_SCHEMA:
            raise XpuBuildError(
                f"{where}: manifest schema {schema!r}; this version of XPU reads "
                f"{MANIFEST_SCHEMA}: {_again(document)}"
            )
        if document.keys() - _FIELDS:
            given, allowed = ", ".join(document), ", ".join(_FIELDS)
            raise XpuConfigError(f"found fields {given}; allowed: {allowed}")
        return Manifest(
            kernel=document["kernel"],
            target=document["target"],
            code_hash=document["code_hash"],
            compiler=document["compiler"],
            entry=document["entry"],
            footprint=_footprint(document["footprint"]),
            buffers=_records(BufferAccess, "buffers", document["buffers"], made),
            operations=_records(Operation, "operations", document["operations"], made),
            max_threads=document.get("max_threads"),
            launch_sites=_records(LaunchSite, "launch_sites", document["launch_sites"], made),
            schema=schema,
        )
    except KeyError as missing:
        why = f"it has no field {missing.args[0]!r}"
        raise XpuBuildError(f"{where}: not a manifest: {why}") from missing
    except XpuConfigError as cause:
        raise XpuBuildError(f"{where}: not a manifest: {cause}") from cause


def _footprint(table: object) -> KernelFacts:
    """Make the footprint; a negative figure is absent from a driver, and damage in a file."""
    facts = _record(KernelFacts, "footprint", table)
    for name, value in table.items() if isinstance(table, dict) else ():
        if isinstance(value, int) and value < 0:
            told = f"{name} is a whole number, 0 or more, or absent, not {value}"
            raise XpuConfigError(f"footprint: {told}")
    return facts


def _records(kind: type[Record], key: str, tables: object, made: Records) -> tuple[Record, ...]:
    if (id(tables), kind) in made:
        known: tuple[Record, ...] = made[id(tables), kind][1]
        return known
    if not isinstance(tables, list):
        raise XpuConfigError(f"{key} is a list of tables, not {tables!r}")
    records = tuple([_record(kind, key, table) for table in tables])
    made[id(tables), kind] = (tables, records)
    return records


def _record(kind: type[Record], key: str, table: object) -> Record:
    if not isinstance(table, dict):
        raise XpuConfigError(f"{key}: found {table!r}, which is no table")
    try:
        return kind(**table)
    except XpuConfigError as cause:
        raise XpuConfigError(f"{key}: {cause}") from cause
    except TypeError:
        fields = attrs.fields_dict(kind)  # type: ignore[arg-type]  # each of them is of attrs
        needed = [name for name, each in fields.items() if each.default is attrs.NOTHING]
        raise XpuConfigError(
            f"{key}: found fields {', '.join(map(str, table)) or 'none'}; needed: "
            f"{', '.join(needed) or 'none'}; allowed: {', '.join(fields)}"
        ) from None


def _present(record: Any) -> dict[str, Any]:
    return attrs.asdict(record, filter=lambda _field, value: value is not None)


def _again(document: dict[str, Any]) -> str:
    """Say what makes the manifest anew, as far as the document tells what it is of."""
    family = str(document.get("kernel", "FAMILY")).partition(".")[0]
    return f"xpu build {family} --target {document.get('target', 'TARGET')} --out DIR makes another"
