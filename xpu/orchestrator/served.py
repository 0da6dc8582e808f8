"""The answer for one problem, as a service gives it."""

from __future__ import annotations

import attrs

from xpu.model import ChoiceResult
from xpu.orchestrator.assembly import Assembled


@attrs.frozen
class Served:
    """The answer for a problem, and the members as they were considered for it.

    `is_final` is False when it stands in for one still to come: the next one who asks
    must ask again.
    """

    assembled: Assembled
    result: ChoiceResult
    is_final: bool

    @property
    def has_no_answer(self) -> bool:
        """Whether a default serves for want of an answer that may still come."""
        return not self.is_final and self.result.source == "default"
