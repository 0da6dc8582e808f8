"""Built code kept by content: one directory per key with the code and its manifest.

The key is a hash of everything that the code came from, so that nothing is ever stale;
the code is verified by its own hash before anyone loads it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import platformdirs

from xpu.adaptor.manifest_file import manifest_from_toml, manifest_to_toml
from xpu.errors import XpuBuildError
from xpu.model import Manifest

_CODE: Final = "code"
_MANIFEST: Final = "manifest.toml"
_LOGGER: Final = logging.getLogger("xpu")


def default_build_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XPU_BUILD_CACHE``, else ``build`` in the platform's cache directory."""
    named = environ.get("XPU_BUILD_CACHE")
    if named:
        return Path(named).expanduser()
    return platformdirs.user_cache_path("xpu", appauthor=False) / "build"


class BuildCache:
    """Code objects and manifests under one directory.

    A directory that cannot be written is replaced by a temporary one for this process,
    said once: a build must not fail for want of a cache.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or default_build_cache()
        self._stand_in: tempfile.TemporaryDirectory[str] | None = None

    def find(self, key: str) -> tuple[Manifest, Path] | None:
        """Return manifest and code of a key when both are whole; None otherwise."""
        place = self._place(key)
        try:
            manifest = manifest_from_toml((place / _MANIFEST).read_text("utf-8"), str(place))
            code = (place / _CODE).read_bytes()
        except (OSError, UnicodeDecodeError, XpuBuildError):
            return None
        if hashlib.sha256(code).hexdigest() != manifest.code_hash:
            _LOGGER.warning("built code in %s does not match its manifest; building again", place)
            return None
        return manifest, place / _CODE

    def keep(self, key: str, code: bytes, manifest: Manifest) -> Path:
        """Write code and manifest, whole or not at all, and return the code's path."""
        try:
            return self._write(self._place(key), code, manifest)
        except OSError as cause:
            if self._stand_in is not None:
                raise
            _LOGGER.warning(
                "build cache %s cannot be written (%s); builds are kept for this process only",
                self.directory,
                cause,
            )
            self._stand_in = tempfile.TemporaryDirectory(prefix="xpu-build-")
            self.directory = Path(self._stand_in.name)
            return self._write(self._place(key), code, manifest)

    def _place(self, key: str) -> Path:
        return self.directory / key[:2] / key

    @staticmethod
    def _write(place: Path, code: bytes, manifest: Manifest) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{place.name[:8]}-", dir=place.parent))
        try:
            (fresh / _CODE).write_bytes(code)
            (fresh / _MANIFEST).write_text(manifest_to_toml(manifest), "utf-8")
            # A damaged entry stands in the way of the rename; a whole one from another
            # process is as good as ours, and is replaced by the same bytes.
            shutil.rmtree(place, ignore_errors=True)
            fresh.replace(place)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            if not (place / _CODE).is_file():
                raise
        return place / _CODE
