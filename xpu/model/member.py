"""A member of a family: one named set of shape parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from xpu.model._facts import frozen_mapping

MEMBER_PARAMETERS: Final = frozenset({"threads", "dynamic_shared_bytes", "index_bits"})
"""Parameters that any member may set, whatever its design."""

PREPARATION: Final = "prepare"
"""What a family's weight preparation is called where a member's name stands; no member is."""


@attrs.frozen
class Member:
    """One named shape of a family; `dialects` is None when it exists in every dialect."""

    name: str
    parameters: Mapping[str, int] = attrs.field(factory=dict, converter=frozen_mapping)
    dialects: tuple[str, ...] | None = None

    def speaks(self, dialect: str) -> bool:
        """Whether the member exists in a dialect."""
        return self.dialects is None or dialect in self.dialects
