"""Small files that are whole or absent, whoever reads, writes or dies meanwhile."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 65536
"""Longest file that is read or written; an answer has a few hundred bytes."""

TEMPORARY: Final = ".tmp-"
"""How the name of a file that is not yet, or no longer, an entry begins."""

_LEFT_OVER_S: Final = 3600.0  # no live writer holds a temporary file for that long


def read(path: Path) -> bytes | None:
    """Return a file's content; None when there is no such file.

    Raises
    ------
    ValueError
        It is not a regular file, or longer than an entry can be.
    OSError
        It cannot be read.
    """
    try:
        # Not blocking: a pipe put in a file's place must not hold the reader for ever.
        with open(path, "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a regular file")
            data = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        raise ValueError("it is not a regular file") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    return data


def write(path: Path, data: bytes) -> None:
    """Put a whole file in place, making its directory where it is missing.

    Raises
    ------
    OSError
        It could not be written; what was there before is there still.
    """
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"the answer is longer than {MOST_BYTES} bytes", str(path))
    try:
        _put(path, data)
    except FileNotFoundError:  # the first entry of a part, or somebody removed the directory
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, data)


def _put(path: Path, data: bytes) -> None:
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name on empty content
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def discard(path: Path, stale: bytes) -> None:
    """Delete a file, unless another process has put other content in its place.

    Raises
    ------
    OSError
        It could not be deleted.
    """
    # Deleting by name could hit the answer that another process wrote after we read the
    # stale one. Under a name of our own nobody replaces the file while we look at it.
    aside = _temporary(path)
    try:
        path.replace(aside)
    except FileNotFoundError:
        return
    if aside.read_bytes() == stale:
        aside.unlink()
    else:
        aside.replace(path)


def sweep(directory: Path) -> None:
    """Delete the temporary files that killed writers left behind; failing is no matter."""
    with suppress(OSError):
        for path in directory.glob(TEMPORARY + "*"):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _LEFT_OVER_S:
                    path.unlink()


def _temporary(path: Path) -> Path:
    return path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
