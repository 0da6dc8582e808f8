"""Turns at tuning, so that of several processes one measures and the others wait for it.

Lock files live in the user's cache directory, outside every store, which holds answers
and nothing else. A turn is a courtesy: where no lock can be made everyone tunes, and the
last answer stays. The kernel frees the lock of a process that dies.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger("xpu")


@contextmanager
def turn(identity: tuple[str, ...], wait_s: float) -> Iterator[bool]:
    """Hold the turn at what `identity` names while the context is open.

    Parameters
    ----------
    identity
        Texts that name what is tuned.
    wait_s
        Seconds to wait for another holder, 0 or more.

    Yields
    ------
    bool
        Whether it is the caller's turn; False when another still held it after `wait_s`.
    """
    # Imported here: only who tunes pays for it.
    import filelock

    try:
        path = _lock_path(identity)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path, timeout=max(0.0, wait_s))
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    except (OSError, RuntimeError) as error:  # read-only, no such lock on this file system
        _log.debug("no lock could be made, tuning without: %s", error)
        yield True
        return
    try:
        yield True
    finally:
        lock.release()


def _lock_path(identity: tuple[str, ...]) -> Path:
    import platformdirs

    digest = hashlib.sha256()
    for text in identity:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)
    directory = platformdirs.user_cache_path("xpu", appauthor=False) / "locks"
    return directory / f"{digest.hexdigest()[:32]}.lock"
