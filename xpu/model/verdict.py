"""The filter's word on one candidate: survivor or pruned, with the figures."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from xpu.model._facts import frozen_mapping
from xpu.model.candidate import ShapeCandidate
from xpu.model.facts import KernelFacts

Figure = int | float | bool | None


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
