"""Where a bundle may be put, and how an older one leaves its place: nothing else is deleted."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from xpu.bundle.contents import TOP, SchemaError, contents_from_json
from xpu.errors import XpuConfigError
from xpu.spec import expanded

_SHOWN: Final = 5
"""Foreign files that a refusal names."""
_ELSE: Final = "name a directory that is not there, is empty, or holds a bundle, which is replaced"


def place_of(directory: str | Path) -> Path:
    """Return the place that a name means, links followed.

    Raises
    ------
    XpuConfigError
        The name is empty.
    """
    if not os.fspath(directory):
        raise XpuConfigError(f"--out is empty; {_ELSE}")
    return Path(os.path.realpath(directory))


def check_place(directory: Path) -> None:
    """Refuse a place where something would be lost.

    Raises
    ------
    XpuConfigError
        It is the working directory, a parent of it, the home directory, or holds anything that
        is not of a bundle.
    OSError
        It cannot be read.
    """
    here = Path(os.path.realpath(Path.cwd()))
    if directory == here or directory in here.parents:
        what = "the working directory" if directory == here else "above the working directory"
        raise XpuConfigError(f"--out {directory} is {what}, and is not replaced; {_ELSE}")
    if directory == Path(os.path.realpath(expanded("~"))):
        raise XpuConfigError(f"--out {directory} is the home directory; {_ELSE}")
    if os.path.lexists(directory):
        _check_files(directory, directory)


def put(fresh: Path, directory: Path) -> None:
    """Rename a bundle to its place, in that of an older one where there is one.

    Raises
    ------
    XpuConfigError
        What is there now would be lost; it is left as it is.
    OSError
        The place cannot be written; what was there is there.
    """
    if not os.path.lexists(directory):
        fresh.rename(directory)
        return
    # A directory with something in it is not renamed over: the old one steps aside first. What
    # is in it is looked at there, where nobody adds to it any more.
    old = Path(tempfile.mkdtemp(prefix=".old-", dir=directory.parent))
    aside = old / "bundle"
    try:
        directory.rename(aside)
        try:
            own = _check_files(aside, directory)
            fresh.rename(directory)
        except (OSError, XpuConfigError):
            aside.rename(directory)
            raise
        _remove(aside, own)
    finally:
        with contextlib.suppress(OSError):
            old.rmdir()


def _check_files(directory: Path, shown: Path) -> set[str]:
    """Return the names of a bundle's files; none of an empty directory. Refuse anything else."""
    found = _found(directory)
    if not found and directory.is_dir():
        return set()
    try:
        listed = {TOP, *contents_from_json((directory / TOP).read_text("utf-8")).hashes}
    except (FileNotFoundError, NotADirectoryError):
        raise XpuConfigError(f"--out {shown} is there and is no bundle; {_ELSE}") from None
    except SchemaError as other:
        raise XpuConfigError(
            f"--out {shown} holds a bundle of schema {other.args[0]!r}, whose files this version "
            "does not know; remove it, or name another directory"
        ) from None
    except (ValueError, RecursionError) as cause:
        raise XpuConfigError(
            f"--out {shown} holds a {TOP} that cannot be understood ({cause}), so that its files "
            "are not known; remove it, or name another directory"
        ) from None
    foreign = sorted(found - listed)
    if foreign:
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        raise XpuConfigError(
            f"--out {shown} holds what is not of its bundle: {', '.join(foreign[:_SHOWN])}{more}; "
            "move that elsewhere, or name another directory"
        )
    return found


def _found(directory: Path) -> set[str]:
    """Return the names of all files and links below a directory, and of directories without any."""

    def fail(error: OSError) -> None:
        raise error

    names: set[str] = set()
    if directory.is_dir():
        for where, below, files in os.walk(directory, onerror=fail):
            root = Path(where)
            links = [name for name in below if (root / name).is_symlink()]
            names |= {(root / name).relative_to(directory).as_posix() for name in files + links}
            if not below and not files and root != directory:
                names.add(f"{root.relative_to(directory).as_posix()}/")
    return names


def _remove(directory: Path, names: set[str]) -> None:
    """Remove files by name and the directories that they leave empty; what else came stays."""
    with contextlib.suppress(OSError):
        for name in names:
            (directory / name).unlink()
        for where, _, _ in os.walk(directory, topdown=False):
            Path(where).rmdir()
