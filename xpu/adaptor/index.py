"""What a build cache holds, in one file, so that hundreds of builds are looked up at once.

It saves reading each code object and each manifest, and nothing rests on it: an entry counts as
long as both files are of the size and the times that they had when they were read and found whole.
Whoever loads code verifies it by its hash.

Buffers, operations and launches of a build are those of many others: each list of them stands in
the file once, and is made into records once.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from xpu.adaptor.manifest_file import Records, manifest_from_document, manifest_to_document
from xpu.errors import XpuBuildError
from xpu.model import Manifest

_SCHEMA: Final = 2
_SHARED: Final = ("buffers", "operations", "launch_sites")
"""Lists of a manifest; builds have the number of each in the file's ``lists``."""


class BuildIndex:
    """Manifests of builds by their keys, in a file that is read when it is first asked."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Any] | None = None
        self._fresh: dict[str, Any] = {}
        self._records: Records = {}

    def find(self, key: str, *files: Path | str) -> Manifest | None:
        """Return the manifest of a build whose files are as they were; None otherwise."""
        if self._known is None:
            self._known = _read(self._file)
        entry = self._known.get(key)
        if entry is None or entry[0] != _states(files):
            return None
        try:
            return manifest_from_document(entry[1], str(files[0]), self._records)
        except XpuBuildError:
            return None

    def note(self, key: str, manifest: Manifest, *files: Path | str) -> None:
        """Note a build that was read and found whole."""
        states = _states(files)
        if None not in states:
            self._fresh[key] = [states, manifest_to_document(manifest)]

    def save(self) -> None:
        """Add to the file what was noted; where it cannot be written nothing is lost."""
        if not self._fresh:
            return
        # Another process may have added to it since it was read.
        entries = {**_read(self._file), **self._fresh}
        self._known = entries
        self._fresh = {}
        document = {"schema": _SCHEMA, **_packed(entries)}
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._file.parent, delete=False) as fresh:
                try:
                    json.dump(document, fresh, separators=(",", ":"))
                    fresh.flush()
                    Path(fresh.name).replace(self._file)
                except BaseException:  # an interruption leaves nothing behind either
                    Path(fresh.name).unlink(missing_ok=True)
                    raise


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
        return _unpacked(document) if document["schema"] == _SCHEMA else {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _packed(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return entries with the numbers of their lists, and the lists."""
    numbers: dict[str, int] = {}
    builds = {
        key: [states, {name: _number(numbers, name, value) for name, value in manifest.items()}]
        for key, (states, manifest) in entries.items()
    }
    return {"lists": list(map(json.loads, numbers)), "builds": builds}


def _number(numbers: dict[str, int], name: str, value: Any) -> Any:
    if name not in _SHARED:
        return value
    return numbers.setdefault(json.dumps(value), len(numbers))


def _unpacked(document: dict[str, Any]) -> dict[str, Any]:
    """Return what was packed; builds with equal lists have the same one."""
    lists, builds = document["lists"], document["builds"]
    for _states, manifest in builds.values():
        for name in _SHARED:
            manifest[name] = lists[manifest[name]]
    return dict(builds)


def _states(files: tuple[Path | str, ...]) -> list[list[int] | None]:
    found: list[list[int] | None] = []
    for file in files:
        try:
            state = os.stat(file)  # noqa: PTH116 - a path object costs more than the question
        except OSError:
            found.append(None)
        else:
            found.append([state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino])
    return found
