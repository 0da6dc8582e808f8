"""The memory of one device: answers by name, each against the build that it rests on.

The choice asks here before it times anything and tells what it found. Once an answer is
loaded, recalling it costs one dictionary look-up; no call raises because of a disk.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from xpu.errors import XpuConfigError
from xpu.model import DeviceFacts
from xpu.spec import expanded
from xpu.store import disk
from xpu.store.entry import Entry, StoredEntry, from_bytes, to_bytes
from xpu.store.listing import stored_entries
from xpu.store.names import UNKNOWN, device_key, file_name, part
from xpu.store.turn import turn

_log = logging.getLogger("xpu")


class Autotune:
    """Answers of one device below a directory that the program supplies.

    Parameters
    ----------
    directory
        Where the answers of all devices lie; made at the first answer. A leading ``~`` is
        the user's home.
    device_facts
        The device. One that reports no geometry is remembered in memory only.

    Attributes
    ----------
    directory, device_key, part
        An answer's file is ``directory / device_key / part / file``.

    Raises
    ------
    XpuConfigError
        The directory is not a path.

    Notes
    -----
    Safe from several threads and processes. A directory that cannot be used (read-only,
    full, a file, gone) is said once on the logger ``xpu``; answers are then in memory,
    and on disk again from the next one that can be written.
    """

    def __init__(self, directory: str | os.PathLike[str], device_facts: DeviceFacts) -> None:
        self.directory: Final = _absolute(directory)
        self.device_key: Final = device_key(device_facts)
        self.part: Final = part(device_facts)
        self._place = (
            None if self.device_key == UNKNOWN else (self.directory / self.device_key / self.part)
        )
        self._memory: dict[str, Entry] = {}
        self._dropped: dict[str, Entry] = {}
        self._bad: set[str] = set()
        self._has_said = False
        self._has_swept = False
        # Held on the way to the disk, never for an answer that is in memory.
        self._lock = threading.Lock()
        if self._place is None:
            _log.info("the device reports no geometry: its answers are kept in memory only")

    def recall(self, name: str, build_id: str) -> Entry | None:
        """Return the answer of a name against a build, None when there is none.

        An answer against another build is dropped, its file deleted; `dropped` tells.
        A miss looks at the disk each time, so an answer that another process has written
        meanwhile is found.
        """
        entry = self._memory.get(name)
        if entry is not None and entry.build_id == build_id:
            return entry
        return self._recall_from_disk(name, build_id)

    def peek(self, name: str, build_id: str) -> Entry | None:
        """Return what `recall` would, and drop nothing."""
        kept = self._memory.get(name)
        if kept is not None and kept.build_id == build_id:
            return kept
        path = self.path_of(name)
        try:
            data = None if path is None else disk.read(path)
            found = None if path is None or data is None else from_bytes(path.name, data)[1]
        except (OSError, ValueError):  # a recall says so
            return None
        return found if found is not None and found.build_id == build_id else None

    def remember(self, name: str, value: str, build_id: str, **notes: object) -> bool:
        """Keep an answer; notes are kept as text, a note of None is left out.

        Returns
        -------
        bool
            Whether it is on disk now. In memory it is in any case.
        """
        entry = Entry(value, build_id, notes)
        data = to_bytes(name, entry)
        with self._lock:
            self._memory[name] = entry
            self._dropped.pop(name, None)
            path = self.path_of(name)
            if path is None:
                return False
            try:
                disk.write(path, data)
            except OSError as error:
                self._say_once(error)
                return False
            self._bad.discard(path.name)
            if not self._has_swept:
                self._has_swept = True
                disk.sweep(path.parent)
            return True

    def dropped(self, name: str) -> Entry | None:
        """Return the answer that `recall` last dropped under a name.

        It is told until the name has a new answer or is forgotten. The object is the same
        for as long as the same answer is dropped, also one whose file cannot be deleted.
        """
        return self._dropped.get(name)

    def forget(self, name: str) -> None:
        """Drop an answer from memory and disk, and what was known of a dropped one."""
        with self._lock:
            self._memory.pop(name, None)
            self._dropped.pop(name, None)
            path = self.path_of(name)
            if path is None:
                return
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                return
            except OSError as error:
                self._say_once(error)

    def path_of(self, name: str) -> Path | None:
        """Return where the file of a name lies; None when the device is unknown."""
        return None if self._place is None else self._place / file_name(name)

    def entries(self) -> tuple[StoredEntry, ...]:
        """Return what the whole directory holds, other devices included.

        Raises
        ------
        XpuError
            The directory cannot be read.
        """
        return stored_entries(self.directory)

    def tuning_turn(self, name: str, wait_s: float) -> AbstractContextManager[bool]:
        """Take the turn at tuning a name among threads and processes.

        The context gives True when it is the caller's turn, also where no lock can be
        made; False when another still tunes after `wait_s` seconds. Recall again inside:
        the one before may have left the answer. With no answer, True tunes and False
        serves the default. It never fails, and never waits in memory-only use.
        """
        if self._place is None:
            return nullcontext(True)
        place = os.path.realpath(self.directory)
        return turn((place, self.device_key, self.part, name), wait_s)

    def _recall_from_disk(self, name: str, build_id: str) -> Entry | None:
        with self._lock:
            kept = self._memory.get(name)
            if kept is not None and kept.build_id == build_id:  # another thread's, just now
                return kept
            path = self.path_of(name)
            found = None if path is None else self._read(path, build_id)
            if found is not None and found.build_id == build_id:
                self._memory[name] = found
                return found
            stale = found or kept
            if stale is not None:
                self._memory.pop(name, None)
                if stale != self._dropped.get(name):
                    self._dropped[name] = stale
            return None

    def _read(self, path: Path, build_id: str) -> Entry | None:
        try:
            data = disk.read(path)
            if data is None:
                return None
            _, entry = from_bytes(path.name, data)
        except ValueError as error:
            if path.name not in self._bad:
                self._bad.add(path.name)
                _log.warning("the stored answer %s is passed over: %s", path, error)
            return None
        except OSError as error:
            self._say_once(error)
            return None
        if entry.build_id != build_id:
            try:
                disk.discard(path, data)
            except OSError as error:  # dropped all the same: no recall will believe it
                self._say_once(error)
        return entry

    def _say_once(self, error: OSError) -> None:
        if not self._has_said:
            self._has_said = True
            _log.warning(
                "the store %s cannot be used (%s): answers are kept in memory only",
                self.directory,
                error.strerror or error,
            )


def _absolute(directory: str | os.PathLike[str]) -> Path:
    try:
        text = os.fspath(directory)
    except TypeError:
        text = ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise XpuConfigError(
            f"a store's directory is a path, not {directory!r}; "
            "to work without a store say ShapeChoice(store=None)"
        )
    return expanded(text).absolute()  # the program may change its directory later
