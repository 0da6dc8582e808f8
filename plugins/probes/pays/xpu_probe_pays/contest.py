"""Two ways to do the same work, each by its fastest member, and whether the newcomer pays.

What the probes of this distribution share. It measures nothing itself: the context does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from xpu.model import ChoiceResult, MemberResult

PAYS_FROM_PERMILLE: Final = 30
"""How much faster, in parts per thousand, a newcomer is that pays. Source: the label of a tie."""


@attrs.frozen
class Way:
    """One way to do the work: what it is called, and what it took in all, in nanoseconds."""

    name: str
    total_ns: float


def fastest_ns(results: Iterable[MemberResult], among: Iterable[str] | None = None) -> float | None:
    """Return the least median of members that are right, in nanoseconds; None without any."""
    names = None if among is None else set(among)
    read = [
        each.median_ns
        for each in results
        if each.status in ("survivor", "left") and each.median_ns is not None
        if names is None or each.name in names
    ]
    return min(read, default=None)


def contest(name: str, problem: str, memory: str, usual: Way, newcomer: Way) -> ChoiceResult:
    """Return which of two ways serves: the usual one, unless the newcomer pays."""
    lead = 1000 * (usual.total_ns - newcomer.total_ns) / usual.total_ns
    has_won = lead >= PAYS_FROM_PERMILLE
    slower_ns = max(usual.total_ns, newcomer.total_ns)
    margin = round(1000 * abs(usual.total_ns - newcomer.total_ns) / slower_ns)
    members = [MemberResult(way.name, median_ns=way.total_ns) for way in (usual, newcomer)]
    return ChoiceResult(
        name,
        problem,
        newcomer.name if has_won else usual.name,
        "timed",
        timed=True,
        margin_permille=margin,
        tie=margin < PAYS_FROM_PERMILLE,
        members=tuple(members),
        memory=memory,
    )
