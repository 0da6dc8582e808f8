"""A whole store, seen by its directory alone: no device is needed to list or remove.

Only what lies two directories down under names that a store gives is looked at, so that a
wrong directory is never emptied.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from xpu.errors import XpuError
from xpu.spec import expanded
from xpu.store import disk
from xpu.store.entry import StoredEntry, from_bytes
from xpu.store.names import is_device_key, is_part, is_shortened, spelled_out


def stored_entries(directory: str | os.PathLike[str]) -> tuple[StoredEntry, ...]:
    """Return every entry below a directory, in the order of their files.

    A file that is no answer is an entry with a `fault`. A missing directory has none.

    Raises
    ------
    XpuError
        A directory cannot be read.
    """
    root = expanded(directory)
    try:
        return tuple(_walk(root))
    except OSError as error:
        raise XpuError(
            f"the store {root} cannot be read: {error.strerror}; "
            "name another directory in $XPU_STORE or mend this one"
        ) from error


def remove_entries(
    directory: str | os.PathLike[str], names: Collection[str] | None = None
) -> tuple[StoredEntry, ...]:
    """Delete entries by name, for every device and part, or all of them with None.

    Returns
    -------
    tuple of StoredEntry
        What was deleted.

    Raises
    ------
    XpuError
        A directory cannot be read, or an entry cannot be deleted; the others are.
    """
    removed, failures = [], []
    for entry in stored_entries(directory):
        if names is not None and entry.name not in names:
            continue
        try:
            entry.path.unlink(missing_ok=True)
            removed.append(entry)
        except OSError as error:
            failures.append(f"{entry.path} cannot be removed: {error.strerror}")
    if failures:
        failed = XpuError(f"{failures[0]}; check who may write its directory and try again")
        for failure in failures[1:]:
            failed.add_note(failure)
        raise failed
    return tuple(removed)


def _walk(root: Path) -> Iterator[StoredEntry]:
    for key in _children(root):
        if not is_device_key(key.name) or not key.is_dir():
            continue
        for part in _children(key):
            if is_part(part.name) and part.is_dir():
                for path in _children(part):
                    if not path.name.startswith(disk.TEMPORARY):
                        yield from _entry(path)


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:  # never made, or removed meanwhile
        return []


def _entry(path: Path) -> Iterator[StoredEntry]:
    key, part = path.parent.parent.name, path.parent.name
    try:
        data = disk.read(path)
        if data is None:  # removed meanwhile
            return
        name, entry = from_bytes(path.name, data)
    except OSError as error:
        fault = f"it cannot be read: {error.strerror}"
    except ValueError as error:
        fault = str(error)
    else:
        yield StoredEntry(path, key, part, name, entry.value, entry.build_id, entry.notes)
        return
    yield StoredEntry(path, key, part, _name_of_faulty(path), fault=fault)


def _name_of_faulty(path: Path) -> str:
    try:
        return path.name if is_shortened(path.name) else spelled_out(path.name)
    except ValueError:
        return path.name
