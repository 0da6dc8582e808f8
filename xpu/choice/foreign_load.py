"""Who else used the device during a trial."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from xpu.model.result import CONTENDED_LOAD

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
        if self.largest is None or not self.is_contended:
            return ""
        percent = math.floor(100 * min(self.largest, 1.0) + 0.5)
        return (
            f"{percent} % of the device was held by others while timing; "
            "the answer is not kept and the next choice times again"
        )
