"""What an orchestrator tells its program: defaults that stand in, answers that were dropped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Literal

import attrs


@attrs.frozen
class Event:
    """Something that a program may want to log or to act on.

    `kind` is ``default`` (a default serves for want of an answer) or ``dropped`` (a
    remembered answer no longer holds).
    """

    kind: Literal["default", "dropped"]
    family: str
    problem: str
    member: str
    text: str = ""


Listener = Callable[[Event], None]
_LOGGER: Final = logging.getLogger("xpu")


def tell(listener: Listener | None, event: Event) -> None:
    """Tell a program's listener, if it has one; what the listener raises is logged."""
    if listener is None:
        return
    try:
        listener(event)
    except Exception:
        # Whoever asked for a kernel gets one: it is not the asker's fault.
        _LOGGER.exception("the listener failed on %s", event)
