"""What an orchestrator tells its program: defaults that stand in, answers that were dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

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
