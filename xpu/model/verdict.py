"""The filter's word on one candidate: survivor or pruned, with the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from xpu.model._facts import frozen_mapping
from xpu.model.candidate import ShapeCandidate
from xpu.model.facts import KernelFacts

Figure = int | float | bool | None

LAUNCH_RECORDS: Final = ("splits", "resident_splits")
"""What rules record that a launch is told beside a member's parameters."""


def told_to_launch(records: Mapping[str, Figure]) -> dict[str, int]:
    """Return those of a verdict's records that a launch is told, where they are there."""
    told = {name: records.get(name) for name in LAUNCH_RECORDS}
    return {name: value for name, value in told.items() if isinstance(value, int)}


@attrs.frozen
class Verdict:
    """What the rules said of a candidate.

    `rule`, `title`, `need` and `limit` are those of the first rule that prunes, and absent
    for a survivor. `records` holds what rules noted, whether or not one of them pruned.
    """

    candidate: ShapeCandidate
    kernel: KernelFacts = attrs.field(factory=KernelFacts)
    rule: str | None = None
    title: str | None = None
    need: Figure = None
    limit: Figure = None
    records: Mapping[str, Figure] = attrs.field(factory=dict, converter=frozen_mapping)

    @property
    def is_survivor(self) -> bool:
        """Whether no rule pruned the candidate."""
        return self.rule is None

    @property
    def resident_groups(self) -> Figure:
        """Blocks resident on one multiprocessor at once; absent when unknown."""
        return self.records.get("resident_groups")

    @property
    def fills(self) -> Figure:
        """Whether the tiles, before any split of k, occupy every multiprocessor."""
        return self.records.get("fills")

    @property
    def splits(self) -> Figure:
        """Least number of k splits that occupies every multiprocessor."""
        return self.records.get("splits")

    @property
    def resident_splits(self) -> Figure:
        """Most k splits whose blocks are all resident at once; at least 1."""
        return self.records.get("resident_splits")

    @property
    def pad_waste_permille(self) -> Figure:
        """Padded rows that carry nothing, in parts per thousand."""
        return self.records.get("pad_waste_permille")

    def __str__(self) -> str:
        if self.is_survivor:
            return f"{self.candidate.name}: survivor"
        return (
            f"{self.candidate.name}: {self.rule} ({self.title}): "
            f"needs {self.need}, limit {self.limit}"
        )
