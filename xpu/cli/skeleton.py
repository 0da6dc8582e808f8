"""A plugin to begin with: a whole distribution, written from templates.

Templates are files under ``templates/``; a folder ``package`` and a file ``name`` in them take
the plugin's names.
"""

from __future__ import annotations

import os
import re
import shutil
import string
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Final

import attrs

from xpu.errors import XpuConfigError, XpuError
from xpu.spec import ENTRY_POINT_GROUP

_BRINGS: Final = {"backend": "backend", "family": "design", "probe": "probe"}
KINDS: Final = tuple(_BRINGS)
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST: Final = 40
_SUFFIX: Final = ".in"


@attrs.frozen
class Skeleton:
    """What was written: the distribution, its package, its folder and the files in it."""

    kind: str
    name: str
    distribution: str
    package: str
    directory: Path
    files: tuple[str, ...]


def write_skeleton(kind: str, name: str, into: Path) -> Skeleton:
    """Write a distribution into a new folder below `into`.

    Raises
    ------
    XpuConfigError
        The name is none for a plugin, or taken, or the folder is there already.
    XpuError
        The folder cannot be written; nothing is left behind then.
    """
    _check_name(name)
    package = f"xpu_{kind}_{name}"
    distribution = package.replace("_", "-")
    holder = _holder(kind, name, distribution)
    if holder:
        raise XpuConfigError(f"{holder}; give another name")
    place = into / distribution
    if os.path.lexists(place):
        raise XpuConfigError(
            f"{place} is there already, and nothing is overwritten; give another name, or another "
            "directory with --into"
        )
    title = "".join(part.capitalize() for part in name.split("_"))
    names = {"name": name, "title": title, "package": package, "distribution": distribution}
    texts = dict(_filled(kind, names))
    try:
        _write(texts, place)
    except OSError as error:
        raise XpuError(
            f"{place} cannot be written: {error.strerror or error}; name another directory with "
            "--into"
        ) from error
    return Skeleton(kind, name, distribution, package, place, tuple(texts))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        likely = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")[:_LONGEST]
        hint = f"did you mean {likely.strip('_')!r}? " if likely.strip("_") else ""
        raise XpuConfigError(
            f"{name!r} is no name for a plugin; {hint}allowed: lower-case letters, digits and "
            f"single underscores, a letter first, at most {_LONGEST} characters"
        )


def _holder(kind: str, name: str, distribution: str) -> str:
    """Say who has a name already that the new plugin would take; the empty text when nobody."""
    from xpu.building import settings_for
    from xpu.registry import default_registry

    for point in _installed():
        if point.name == name:
            brought = f" by {point.dist.name}" if point.dist is not None else ""
            return f"a plugin called {name!r} is installed{brought}"
    if _is_installed(distribution):
        return f"distribution {distribution} is installed"
    registry = default_registry()
    brings = _BRINGS[kind]
    owner = registry.owners.get((brings, name))
    if owner is not None:
        return f"{owner.brings} is brought by plugin {owner.plugin!r} of {owner.distribution}"
    if kind == "family":
        with suppress(XpuError):  # a configuration that cannot be read declares nothing
            if name in settings_for(registry).families:
                return f"family {name!r} is declared (see xpu families)"
    return ""


def _is_installed(distribution: str) -> bool:
    with suppress(Exception):  # not there, or torn
        metadata.distribution(distribution)
        return True
    return False


def _installed() -> Iterator[metadata.EntryPoint]:
    with suppress(Exception):  # torn metadata of whatever is installed is nothing to fail on
        yield from metadata.entry_points(group=ENTRY_POINT_GROUP)


def _filled(kind: str, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    root = resources.files("xpu.cli") / "templates" / kind
    for path, file in sorted(_files(root, PurePosixPath())):
        parts = [names["package"] if part == "package" else part for part in path.parts]
        last = parts.pop().removesuffix(_SUFFIX)
        stem, dot, suffix = last.partition(".")
        if stem == "name":
            last = f"{names['name']}{dot}{suffix}"
        elif stem.startswith("test_"):  # pytest wants names of test files to differ
            last = f"{stem}_{names['name']}{dot}{suffix}"
        text = string.Template(file.read_text("utf-8")).substitute(names)
        yield str(PurePosixPath(*parts, last)), text


def _files(folder: Traversable, at: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, at / item.name)
        elif item.name.endswith(_SUFFIX):
            yield at / item.name, item


def _write(texts: Mapping[str, str], place: Path) -> None:
    """Write all files under another name and rename the folder: it is there whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".xpu-", dir=place.parent))
    try:
        fresh.chmod(0o755)
        for name, text in texts.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_text(text, "utf-8")
        fresh.rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
