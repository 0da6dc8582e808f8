"""Where a user's files lie: paths as they were typed, and the directory of what was built."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with its ``~`` written out; as it is where nobody knows that home."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises without a home


def build_cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XPU_BUILD_CACHE``, else ``build`` in the platform's cache directory."""
    named = environ.get("XPU_BUILD_CACHE", "").strip()
    if named:
        return expanded(named).absolute()  # a program may change its directory
    import platformdirs

    return platformdirs.user_cache_path("xpu", appauthor=False) / "build"
