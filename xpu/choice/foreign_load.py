"""Who else used the device during a trial."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable

import attrs

from xpu.model.result import CONTENDED_LOAD, ChoiceResult

_log = logging.getLogger("xpu")

ForeignLoad = Callable[[], float | None]


class LoadWatch:
    """Samples the share that others hold, and keeps the largest of one trial.

    `largest` is that share, 0 to 1; None while nothing is known.

    A sampler that raises, or gives no share, counts as unknown: it fails no trial.
    """

    def __init__(self, sampler: ForeignLoad | None) -> None:
        self._sampler = sampler
        self.largest: float | None = None

    def sample(self) -> None:
        """Look once."""
        if self._sampler is None:
            return
        try:
            share = self._sampler()
            share = None if share is None else float(share)
        except Exception as error:
            _log.warning("the load of others on the device is unknown: %s", error)
            return
        if share is not None and not math.isnan(share):
            self.largest = share if self.largest is None else max(self.largest, share)

    @property
    def is_contended(self) -> bool:
        """Whether others held so much of the device that no cache may keep the answer."""
        return self.largest is not None and self.largest >= CONTENDED_LOAD

    @property
    def note(self) -> str:
        """What a reader of a contended result must know; else the empty text."""
        return load_note(self.largest)


def load_note(share: float | None) -> str:
    """Say what a share held by others, 0 to 1, does to an answer; empty when it does nothing."""
    if share is None or share < CONTENDED_LOAD:
        return ""
    return (
        f"{load_percent(share)} % of the device was held by others while timing; "
        "the answer is not kept and the next choice times again"
    )


def load_percent(share: float) -> int:
    """Return a share as messages give it."""
    return math.floor(100 * min(share, 1.0) + 0.5)


def note_without_load(result: ChoiceResult) -> str:
    """Return a result's note without what it says of a contended device."""
    return result.note.removesuffix(load_note(result.foreign_load)).removesuffix("; ")


def resting_on(result: ChoiceResult, others: Iterable[ChoiceResult]) -> ChoiceResult:
    """Return a result that is not kept where one of those that it rests on was not.

    A stored route serves nobody while its family's own answer has to be timed again.
    """
    most = max((each.foreign_load or 0.0 for each in others), default=0.0)
    note = load_note(most)
    if result.is_contended or not note:
        return result
    note = "; ".join(filter(None, (result.note, note)))
    return attrs.evolve(result, stored=False, foreign_load=most, note=note)
