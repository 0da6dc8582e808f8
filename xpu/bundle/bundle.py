"""A bundle opened: its top file read, and every file of a target verified before it is used.

All are verified at the start, so that damage is found early, and each again where it has changed
until it is read or loaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from xpu.adaptor.manifest_file import manifest_from_toml
from xpu.bundle.contents import (
    BUNDLE_SCHEMA,
    CONFIG,
    TOP,
    Carried,
    Contents,
    SchemaError,
    contents_from_json,
)
from xpu.errors import XpuBuildError, XpuConfigError
from xpu.model import Manifest
from xpu.spec import expanded

MEND: Final = "build it again: xpu build --target TARGET --out DIR"


class Bundle:
    """A directory that `BundleWriter` wrote; a leading ``~`` is the user's home.

    Attributes
    ----------
    targets
        What it holds, in the order of its build.

    Raises
    ------
    XpuConfigError
        There is no bundle at that place.
    XpuBuildError
        It is damaged, or of another schema.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory: Final = expanded(directory).absolute()
        contents = self._top()
        self.version = contents.version
        self.targets: Final = contents.targets
        self._hashes: Final = contents.hashes
        self._verified: dict[str, tuple[int, ...]] = {}
        self.verify(sorted(name for name in self._hashes if name.startswith(f"{CONFIG}/")))

    @property
    def config(self) -> Path:
        """Directory of the configuration that it was built by."""
        return self.directory / CONFIG

    @property
    def held(self) -> str:
        """Name its targets, for messages."""
        return ", ".join(f"{it.backend} {it.carried}" for it in self.targets) or "nothing"

    def verify(self, names: Iterable[str]) -> None:
        """Compare files with their hashes, except those that are as they were at the last time.

        Whoever is about to read or load a file asks: it may have been damaged since the start.

        Raises
        ------
        XpuBuildError
            One is missing, or is not what was written.
        """
        for name in names:
            if self._verified.get(name) != self._state(name):
                self._compare(name)

    def path(self, name: str) -> Path:
        """Return where a file of the bundle lies."""
        return self.directory / name

    def runtime(self, carried: Carried) -> Mapping[str, Path]:
        """Return what a backend loads beside kernels, verified; raises as `verify` does."""
        self.verify(carried.runtime.values())
        return {name: self.path(file) for name, file in carried.runtime.items()}

    def manifest(self, name: str) -> Manifest:
        """Read a manifest, verified.

        Raises
        ------
        XpuBuildError
            It cannot be read, or as `verify` does.
        """
        self.verify([name])
        try:
            return manifest_from_toml(self.path(name).read_text("utf-8"), str(self.path(name)))
        except (OSError, UnicodeDecodeError) as cause:
            raise self._damaged(name, f"cannot be read: {cause}") from cause

    def _top(self) -> Contents:
        path = self.directory / TOP
        try:
            return contents_from_json(path.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise XpuConfigError(
                f"there is no bundle in {self.directory}: no file {TOP}; make one: "
                f"xpu build --out {self.directory}"
            ) from None
        except SchemaError as other:
            raise XpuBuildError(
                f"{path}: bundle schema {other.args[0]!r}; this version reads {BUNDLE_SCHEMA}; "
                f"{MEND}"
            ) from None
        except (OSError, ValueError, RecursionError) as cause:
            raise self._damaged(TOP, f"cannot be understood: {cause}") from cause

    def _compare(self, name: str) -> None:
        # What is written after this look has other times: it is compared again.
        state = self._state(name)
        try:
            found = hashlib.sha256(self.path(name).read_bytes()).hexdigest()
        except FileNotFoundError:
            raise self._damaged(name, "is missing") from None
        except (OSError, ValueError) as cause:  # or it is no name of a file
            why = getattr(cause, "strerror", None) or cause
            raise self._damaged(repr(name)[1:-1], f"cannot be read: {why}") from cause
        if found != self._hashes.get(name):
            raise self._damaged(name, "is not what was written: its hash is another")
        self._verified[name] = state

    def _state(self, name: str) -> tuple[int, ...]:
        """Return what changes when a file does; empty where it cannot be asked for."""
        try:
            state = os.stat(f"{self.directory}/{name}")  # noqa: PTH116 - a path object costs more
        except (OSError, ValueError):
            return ()
        return (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)

    def _damaged(self, name: str, how: str) -> XpuBuildError:
        return XpuBuildError(
            f"bundle {self.directory}: {name} {how}; copy it again whole, or {MEND}"
        )
