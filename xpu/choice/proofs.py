"""Which code has run well here, and which never may again.

Code that nobody has seen run is tried in a worker process first. What came of it is kept
by code hash beside the built code, so that a crash or a hang costs one try, not one per
start. One small file per code hash; deleting it asks for another try.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, cast

import attrs

from xpu.store.disk import read, write

ProofStatus = Literal["well", "wrong", "failed", "hung", "crashed"]
_STATUSES: Final = frozenset({"well", "wrong", "failed", "hung", "crashed"})


@attrs.frozen
class Proof:
    """What came of running a code object once.

    `note` says why, `path` is where it is kept; None where it could not be written.
    """

    status: ProofStatus
    note: str = ""
    path: Path | None = None


class Proofs:
    """Proofs under one directory, and in memory where that cannot be written.

    `context` names the device and driver on which code was run: a proof holds for no other.
    """

    def __init__(self, directory: Path | None, context: str) -> None:
        self._directory = directory
        self._context = context
        self._known: dict[str, Proof] = {}

    def find(self, code_hash: str) -> Proof | None:
        """Return the proof of a code hash; None when it has never run."""
        if code_hash not in self._known:
            found = self._read(code_hash)
            if found is None:
                return None
            self._known[code_hash] = found
        return self._known[code_hash]

    def record(self, code_hash: str, status: ProofStatus, note: str = "") -> None:
        """Keep what came of running a code object."""
        path = self._path(code_hash)
        note = " ".join(note.split())
        text = f"{status}\n{self._context}\n{note}\nend\n"
        try:
            if path is not None:
                write(path, text.encode("utf-8", "replace"))
        except OSError:
            path = None
        self._known[code_hash] = Proof(status, note, path)

    def _path(self, code_hash: str) -> Path | None:
        return None if self._directory is None else self._directory / code_hash

    def _read(self, code_hash: str) -> Proof | None:
        path = self._path(code_hash)
        if path is None:
            return None
        try:
            lines = (read(path) or b"").decode("utf-8").split("\n")
        except (OSError, ValueError):
            return None
        if len(lines) != 5 or lines[3] != "end" or lines[1] != self._context:
            return None
        return (
            Proof(cast("ProofStatus", lines[0]), lines[2], path) if lines[0] in _STATUSES else None
        )
