"""What the top file of a bundle says: its schema, its targets, and a hash of every file.

The file is JSON, for it is read at every start: hundreds of kernels take a millisecond.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

BUNDLE_SCHEMA: Final = 1
TOP: Final = "bundle.json"
CONFIG: Final = "config"
Record = TypeVar("Record")


@attrs.frozen
class Kernel:
    """One code object: what it was made from, and where code and manifest lie.

    Attributes
    ----------
    kernel
        Its name in messages, that of the first who had it built.
    source
        Hash of what it was compiled from, target and compiler apart; see
        `xpu.adaptor.units.source_key`.
    manifest, code
        Names of files within the bundle.
    """

    kernel: str
    source: str
    manifest: str
    code: str


@attrs.frozen
class Carried:
    """All that a bundle holds for one target of a backend.

    Attributes
    ----------
    target
        What was built for, as the compiler calls it.
    carried
        What it is called where it may run: one of `xpu.spec.Backend.code_targets`.
    compiler
        Name and version of what compiled it.
    kernels
        Members, staging and weight preparations, one for each distinct source.
    routines
        Members that call a library, by the names of their kernels: the routine.
    runtime
        What the backend loads beside kernels: files within the bundle, by name.
    """

    backend: str
    dialect: str
    target: str
    carried: str
    compiler: str
    kernels: tuple[Kernel, ...]
    routines: Mapping[str, str]
    runtime: Mapping[str, str]

    @property
    def files(self) -> set[str]:
        """Names of all files within the bundle that belong to the target."""
        own = (name for each in self.kernels for name in (each.manifest, each.code))
        return {*own, *self.runtime.values()}


@attrs.frozen
class Contents:
    """A top file: targets, the version that wrote it, and the SHA-256 of each file by name."""

    version: str
    targets: tuple[Carried, ...]
    hashes: Mapping[str, str]

    def to_json(self) -> str:
        """Write the file."""
        body = attrs.asdict(self)
        document = {"schema": BUNDLE_SCHEMA, "sha256": _hashed(body), "contents": body}
        return json.dumps(document, indent=1) + "\n"


def contents_from_json(text: str) -> Contents:
    """Read a top file of this schema.

    Raises
    ------
    SchemaError
        It is of another schema.
    ValueError
        It is no top file, or not the one that was written; of another type than a field has
        the message names the field.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError("it states no schema")
    if document["schema"] != BUNDLE_SCHEMA:
        raise SchemaError(document["schema"])
    body = document.get("contents")
    if not isinstance(body, dict) or _hashed(body) != document.get("sha256"):
        raise ValueError("its contents are not those that were written")
    return _read(Contents, body, "contents")


class SchemaError(ValueError):
    """A bundle of a schema that this version does not read; its argument is that schema."""


def _read(kind: type[Record], values: object, where: str) -> Record:
    """Make a record of a table, each field by the type that it is declared with."""
    names = _FIELDS[kind]
    if not isinstance(values, dict) or values.keys() != names.keys():
        given = ", ".join(values) if isinstance(values, dict) else repr(values)
        raise ValueError(f"{where} is a table of {', '.join(names)}, not of {given or 'nothing'}")
    return kind(**{name: read(values[name], where, name) for name, read in names.items()})


def _text(value: object, where: str, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where}.{name} is a text, not {value!r}")
    return value


def _texts(value: object, where: str, name: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}.{name} is a table of texts, not {value!r}")
    inside = f"{where}.{name}"
    return {key: _text(each, inside, key) for key, each in value.items()}


def _rows(kind: type[Record]) -> Callable[[object, str, str], tuple[Record, ...]]:
    def read(value: object, where: str, name: str) -> tuple[Record, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{where}.{name} is a list of tables, not {value!r}")
        return tuple(
            [_read(kind, each, f"{where}.{name}[{index}]") for index, each in enumerate(value)]
        )

    return read


_READERS: Final[Mapping[object, Callable[[object, str, str], Any]]] = {
    "str": _text,
    "Mapping[str, str]": _texts,
    "tuple[Kernel, ...]": _rows(Kernel),
    "tuple[Carried, ...]": _rows(Carried),
}
_FIELDS: Final[Mapping[type, Mapping[str, Callable[[object, str, str], Any]]]] = {
    kind: {field.name: _READERS[field.type] for field in attrs.fields(kind)}
    for kind in (Kernel, Carried, Contents)
}


def _hashed(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
