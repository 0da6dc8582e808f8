"""Built code kept by content: one directory per key with the code and its manifest.

The key is a hash of everything that the code came from, so that nothing is ever stale;
the code is verified by its own hash before anyone loads it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import logging
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final

from xpu.adaptor.index import BuildIndex
from xpu.adaptor.manifest_file import manifest_from_toml, manifest_to_toml
from xpu.errors import XpuBuildError
from xpu.model import Manifest
from xpu.spec import build_cache_directory, expanded

_CODE: Final = "code"
_MANIFEST: Final = "manifest.toml"
LISTING: Final = "listing.gz"
"""Beside a code object, the text that the compiler made it of, where it gives one."""
_LOGGER: Final = logging.getLogger("xpu")


class BuildCache:
    """Code objects and manifests under one directory.

    Parameters
    ----------
    directory
        Where they lie; `build_cache_directory` when None. A leading ``~`` is the user's home.

    Notes
    -----
    Where it cannot be written, new builds go to a temporary directory of this process,
    said once: a build must not fail for want of a cache. What is there already is used.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self.directory: Final = (
            build_cache_directory() if directory is None else expanded(directory).absolute()
        )
        self._stand_in: Path | None = None
        self._index = BuildIndex(self.directory / "index.json")

    def find(self, key: str) -> tuple[Manifest, Path] | None:
        """Return manifest and code of a key when both are whole; None otherwise."""
        found = _read(self._place(key))
        if found is None and self._stand_in is not None:
            found = _read(_under(self._stand_in, key))
        return found

    def known(self, key: str) -> tuple[Manifest, Path] | None:
        """Return what `find` does of a build, which was whole when it was last read.

        It is for whoever looks at manifests and loads no code; see `xpu.adaptor.index`. What is
        read is noted there by `save_index`.
        """
        place = f"{self.directory}/{key[:2]}/{key}/"
        code, manifest = place + _CODE, place + _MANIFEST
        noted = self._index.find(key, code, manifest)
        if noted is not None:
            return noted, Path(code)
        found = self.find(key)
        if found is not None:
            self._index.note(key, found[0], code, manifest)
        return found

    def save_index(self) -> None:
        """Note what `known` has read."""
        self._index.save()

    def keep(
        self, key: str, code: bytes, manifest: Manifest, listing: str = ""
    ) -> tuple[Manifest, Path]:
        """Write code, manifest and listing, whole or not at all, and return what is kept.

        That is another process's where it built the same at the same time.

        Raises
        ------
        OSError
            Neither the cache nor a temporary directory can be written.
        """
        place = self._place(key)
        with contextlib.suppress(OSError):
            self._failure_file(key).unlink(missing_ok=True)
        try:
            return _written(place, code, manifest, listing)
        except OSError as cause:
            if self._stand_in is None:
                _LOGGER.warning(
                    "build cache %s cannot be written (%s); builds are kept for this process only",
                    self.directory,
                    cause.strerror or cause,
                )
                self._stand_in = Path(tempfile.mkdtemp(prefix="xpu-build-"))
                weakref.finalize(self, shutil.rmtree, self._stand_in, ignore_errors=True)
            return _written(_under(self._stand_in, key), code, manifest, listing)

    def failure(self, key: str) -> str | None:
        """Return why a key did not compile when that was last tried; None when it did."""
        try:
            return self._failure_file(key).read_text("utf-8") or None
        except (OSError, UnicodeDecodeError):
            return None

    def keep_failure(self, key: str, why: str) -> None:
        """Keep why a key did not compile, so that a recall need not try it again."""
        file = self._failure_file(key)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(why, "utf-8")

    def _place(self, key: str) -> Path:
        return _under(self.directory, key)

    def _failure_file(self, key: str) -> Path:
        return self._place(key).with_suffix(".failed")


def _under(directory: Path, key: str) -> Path:
    return directory / key[:2] / key


def _read(place: Path) -> tuple[Manifest, Path] | None:
    try:
        manifest = manifest_from_toml((place / _MANIFEST).read_text("utf-8"), str(place))
        code = (place / _CODE).read_bytes()
    except (OSError, UnicodeDecodeError, XpuBuildError):
        return None
    if hashlib.sha256(code).hexdigest() != manifest.code_hash:
        _LOGGER.warning("built code in %s does not match its manifest; building again", place)
        return None
    return manifest, place / _CODE


def _written(place: Path, code: bytes, manifest: Manifest, listing: str) -> tuple[Manifest, Path]:
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{place.name[:8]}-", dir=place.parent))
    try:
        fresh.chmod(0o755)  # a cache that an image was built with serves whoever runs there
        (fresh / _CODE).write_bytes(code)
        (fresh / _MANIFEST).write_text(manifest_to_toml(manifest), "utf-8")
        if listing:
            # A third of a megabyte of assembly becomes 25 KB in 6 ms at this level.
            packed = gzip.compress(listing.encode(errors="replace"), 3, mtime=0)
            (fresh / LISTING).write_bytes(packed)
        try:
            fresh.rename(place)
        except OSError:
            # A whole entry stays: another process may be about to load it. A damaged one
            # stands in the way.
            found = _read(place)
            if found is not None:
                return found
            shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):
                place.unlink()  # it is no directory
            fresh.rename(place)
        return manifest, place / _CODE
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
