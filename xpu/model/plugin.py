"""What became of one plugin."""

from __future__ import annotations

from typing import Literal

import attrs

PluginState = Literal["loaded", "failed", "incompatible", "blocked", "conflict"]


@attrs.frozen
class PluginRecord:
    """A plugin by name, its distribution, its state and, unless loaded, stage and cause."""

    name: str
    distribution: str
    state: PluginState
    stage: str = ""
    cause: str = ""
