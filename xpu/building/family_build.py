"""What became of one family for one target."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from xpu.adaptor import Built, Called
from xpu.adaptor.gates import Finding
from xpu.building.targets import Target
from xpu.errors import XpuBuildError
from xpu.model import Family, Verdict


@attrs.frozen
class FamilyBuild:
    """One family built for one target.

    Attributes
    ----------
    members
        What became of each that was to be built.
    pruned
        Those that the facts rule out, with rule, need and limit.
    capped
        Names of those past the family's cap.
    preparation
        The weight preparation, or why it does not compile; None when there is none.
    sources
        Kernels with the keys of their sources, as a bundle takes them.
    findings
        What the gates found, tracked or not.
    """

    family: Family
    target: Target
    members: Mapping[str, Built | Called | XpuBuildError]
    pruned: tuple[Verdict, ...] = ()
    capped: tuple[str, ...] = ()
    preparation: Built | XpuBuildError | None = None
    sources: tuple[tuple[str, Built], ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether a gate found what no declaration tracks."""
        return any(not finding.item for finding in self.findings)
