"""Which questions are being timed right now, in whatever thread."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Underway:
    """Keys in trial. Safe from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keys: set[Hashable] = set()

    def is_settled(self) -> bool:
        """Whether no trial is under way."""
        with self._changed:
            return not self._keys

    def wait_settled(self, timeout_s: float | None) -> bool:
        """Wait until no trial is under way; False when the time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._keys, timeout_s)

    @contextmanager
    def claim(self, key: Hashable) -> Iterator[bool]:
        """Yield whether this thread is the one to tune a key."""
        with self._changed:
            is_ours = key not in self._keys
            self._keys.add(key)
        try:
            yield is_ours
        finally:
            if is_ours:
                with self._changed:
                    self._keys.discard(key)
                    self._changed.notify_all()
