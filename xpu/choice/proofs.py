"""Which code has run well here, and which may not again while its judge is the same.

Code that nobody has seen run is tried in a worker process first. What came of it is kept
by code hash beside the built code, so that a crash or a hang costs one try, not one per
start. One small file per code hash; deleting it asks for another try.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from xpu.store.disk import read, write

ProofStatus = Literal["well", "wrong", "failed", "hung", "crashed"]
_STATUSES: Final = frozenset({"well", "wrong", "failed", "hung", "crashed"})
_NOBODY: Final = "edited meanwhile"
"""The judge of a bad proof that holds for nobody."""


@attrs.frozen
class Proof:
    """What came of running a code object once.

    `note` says why, `path` is where it is kept; None where it could not be written. `judge`
    is what found it bad: data, reference and launch come from there.
    """

    status: ProofStatus
    note: str = ""
    path: Path | None = None
    judge: str = ""


class Proofs:
    """Proofs under one directory, and in memory where that cannot be written.

    `context` names the device and driver on which code was run: a proof holds for no other.
    `judge` gives a text that changes when what judges code is mended. It is asked for only
    when code was bad: that proof then holds for no other judge, one of code that ran well for
    any, since it says nothing of numbers. `is_edited` says whether what judges was mended since
    it was loaded: a worker process runs what stands in the files by then, and so nobody knows
    which of the two found code bad. That holds in this process alone, and has lapsed for others.
    """

    def __init__(
        self,
        directory: Path | None,
        context: str,
        judge: Callable[[], str] = lambda: "",
        is_edited: Callable[[], bool] = lambda: False,
    ) -> None:
        self._directory = directory
        self._context = context
        self._judge = judge
        self._is_edited = is_edited
        self._known: dict[str, Proof] = {}

    def find(self, code_hash: str) -> Proof | None:
        """Return the proof of a code hash that holds; None when it is to be tried."""
        proof = self._kept(code_hash)
        return proof if proof is not None and self._holds(proof) else None

    def is_lapsed(self, code_hash: str) -> bool:
        """Whether code was bad before its judge was mended, and nobody has tried it since."""
        proof = self._kept(code_hash)
        return proof is not None and not self._holds(proof)

    def record(self, code_hash: str, status: ProofStatus, note: str = "") -> None:
        """Keep what came of running a code object."""
        path = self._path(code_hash)
        note = " ".join(note.split())
        is_bad = status != "well"
        judge = self._judge() if is_bad else ""
        kept = _NOBODY if is_bad and self._is_edited() else judge
        text = f"{status}\n{self._context}\n{kept}\n{note}\nend\n"
        try:
            if path is not None:
                write(path, text.encode("utf-8", "replace"))
        except OSError:
            path = None
        self._known[code_hash] = Proof(status, note, path, judge)

    def forget(self, code_hash: str) -> None:
        """Drop what is kept of a code hash: it is about to be tried."""
        self._known.pop(code_hash, None)
        path = self._path(code_hash)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def _holds(self, proof: Proof) -> bool:
        return proof.status == "well" or proof.judge == self._judge()

    def _path(self, code_hash: str) -> Path | None:
        return None if self._directory is None else self._directory / code_hash

    def _kept(self, code_hash: str) -> Proof | None:
        if code_hash not in self._known:
            found = self._read(code_hash)
            if found is None:
                return None
            self._known[code_hash] = found
        return self._known[code_hash]

    def _read(self, code_hash: str) -> Proof | None:
        path = self._path(code_hash)
        if path is None:
            return None
        try:
            lines = (read(path) or b"").decode("utf-8").split("\n")
        except (OSError, ValueError):
            return None
        if len(lines) != 6 or lines[4] != "end" or lines[1] != self._context:
            return None
        if lines[0] not in _STATUSES:
            return None
        return Proof(cast("ProofStatus", lines[0]), lines[3], path, lines[2])
