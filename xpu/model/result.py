"""What a choice gives back: the member that serves, and how that came about."""

from __future__ import annotations

from typing import Literal

import attrs

from xpu.model.verdict import Figure

Source = Literal["only", "stored", "timed", "override", "default"]
Status = Literal["survivor", "pruned", "capped", "wrong", "failed", "hung", "crashed", "left"]


@attrs.frozen
class MemberResult:
    """One member in a result.

    `median_ns` is the median of its good readings in nanoseconds a launch, `rounds` the
    number of rounds in which it was read. `note` says why it failed.
    """

    name: str
    status: Status = "survivor"
    rule: str | None = None
    need: Figure = None
    limit: Figure = None
    median_ns: float | None = None
    rounds: int = 0
    note: str = ""


@attrs.frozen
class ChoiceResult:
    """The answer to one choice.

    `timed`: it was measured just now. `stored`: the store holds this answer now.
    `margin_permille`: (runner-up - winner) / runner-up in parts per thousand; None with
    no runner-up. `tie`: that margin is under 30. `note` names what a reader must know,
    a dropped answer or a loaded device among it.
    """

    family: str
    problem: str
    member: str
    source: Source
    timed: bool = False
    stored: bool = False
    margin_permille: int | None = None
    tie: bool | None = None
    note: str = ""
    members: tuple[MemberResult, ...] = ()
    memory: str = "warm"
