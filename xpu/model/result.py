"""What a choice gives back: the member that serves, and how that came about."""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs

from xpu.model.verdict import Figure

Source = Literal["only", "stored", "timed", "override", "default", "refused"]
Status = Literal["survivor", "pruned", "capped", "wrong", "failed", "hung", "crashed", "left"]

CONTENDED_LOAD: Final = 0.25
"""Share of the device held by others from which on an answer is not kept. Source: design."""


@attrs.frozen
class MemberResult:
    """One member in a result.

    `median_ns` is the median of its good readings in nanoseconds a launch, `rounds` the
    number of rounds in which it was read. `note` says why it failed. `code_hash` is that of
    a member which is set aside for what its code once did. `serving`: of a route, the member
    that serves its family there.
    """

    name: str
    status: Status = "survivor"
    rule: str | None = None
    need: Figure = None
    limit: Figure = None
    median_ns: float | None = None
    rounds: int = 0
    note: str = ""
    code_hash: str | None = None
    serving: str = ""

    @property
    def title(self) -> str:
        """The name, and of a route the member behind it."""
        return f"{self.name} ({self.serving})" if self.serving else self.name

    @property
    def brief(self) -> str:
        """The note as far as one line takes it: of a compiler's text, to its first error."""
        lines = [line.strip() for line in re.split(r"\n| \| ", self.note) if line.strip()]
        first = next((at for at, line in enumerate(lines) if "error" in line.lower()), 0)
        return " ".join(lines[: first + 1]) + " …" * (len(lines) > first + 1)


@attrs.frozen
class ChoiceResult:
    """The answer to one choice.

    `member` is empty and `source` is ``refused`` when nothing can serve: `note` says why, and
    `members` of each, where the choice came as far as that.
    `timed`: it was measured just now. `stored`: the store holds this answer now.
    `margin_permille`: (runner-up - winner) / runner-up in parts per thousand; None with
    no runner-up. `tie`: that margin is under 30. `note` names what a reader must know,
    a dropped answer or a loaded device among it. `foreign_load` is the largest share of the
    device, 0 to 1, that others held while it was timed; None when not timed or not known.
    `check_s` is what a trial spent on data and checks, `trial_s` on its rounds, in seconds; None
    when not timed. `is_stand_in`: another thread or process was timing this problem, and the
    default serves until its answer is there: ask again.
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
    foreign_load: float | None = None
    check_s: float | None = None
    trial_s: float | None = None
    is_stand_in: bool = False

    @property
    def serving(self) -> str:
        """Of a family of routes, the member that serves in the chosen route; else empty."""
        return next((each.serving for each in self.members if each.name == self.member), "")

    @property
    def is_contended(self) -> bool:
        """Whether others held so much of the device that nobody may keep the answer."""
        return self.foreign_load is not None and self.foreign_load >= CONTENDED_LOAD
