"""One call of a choice: what was asked, the result it gives, and the sentences it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from xpu.choice.rests_on import Grounds
from xpu.choice.trial import Outcome
from xpu.errors import XpuLaunchException
from xpu.model import ChoiceResult, MemberResult, Source, Verdict, nearest

if TYPE_CHECKING:
    from xpu.filter import ShapeFilter

_MOST_NAMED: Final = 4
"""Changes that a message names: after a new compiler all members' code is another."""


@attrs.frozen
class Case:
    """One call of `ShapeChoice.choose`.

    `notes` gathers what a reader of the result must know. `name` is that
    of the answer in a store, `grounds` what it rests on; None without a store.
    """

    f: ShapeFilter
    survivors: tuple[Verdict, ...]
    memory: str
    name: str
    grounds: Grounds | None = None
    notes: list[str] = attrs.field(factory=list)

    @property
    def build_id(self) -> str:
        """The build id of an answer; the empty text without a store."""
        return "" if self.grounds is None else self.grounds.build_id

    def dropped(self, value: str, brief: str | None) -> str:
        """Say that an answer was dropped, and what has changed where its line tells."""
        changed = [] if self.grounds is None else self.grounds.changed_since(brief or "")
        named = ", ".join(changed[:_MOST_NAMED]) + ", …" * (len(changed) > _MOST_NAMED)
        what = f" (changed: {named})" if changed else ""
        return f"the stored answer {value!r} rested on another build{what} and was dropped"

    @property
    def title(self) -> str:
        """Family and problem, as messages name them."""
        return f"{self.f.name} {self.f.problem.key}"

    @property
    def names(self) -> list[str]:
        """The survivors' names in declared order."""
        return [verdict.candidate.name for verdict in self.survivors]

    @property
    def default(self) -> str:
        """The default where it survived, else the first survivor in declared order."""
        names = self.names
        return self.f.default if self.f.default in names else names[0]

    def refuse_override(self, member: str) -> None:
        """Raise unless an override names a survivor.

        Raises
        ------
        XpuLaunchException
            It is unknown, or pruned (with rule, need and limit), or was not built.
        """
        if member in self.names:
            return
        head = f"{self.title}: the override {member!r}"
        pruned = next((each for each in self.f.pruned if each.candidate.name == member), None)
        aside = next((each for each in self.f.aside if each.name == member), None)
        if pruned is not None:
            why = f"cannot be launched: {pruned}"
        elif aside is not None:
            why = f"is {aside.status}: {aside.brief or 'it was not built'}"
        else:
            considered = [each.candidate.name for each in self.f.verdicts]
            declared = [*considered, *(each.name for each in self.f.aside)]
            raise XpuLaunchException(f"{head} is no member; {nearest(member, declared)}")
        raise XpuLaunchException(f"{head} {why}; clear it or choose from: {', '.join(self.names)}")

    def nothing_timed(self, outcome: Outcome) -> str:
        """Say of each survivor why it cannot serve."""
        return (
            f"{self.title}: no member can serve: {'; '.join(self.faults(outcome))}; "
            "mend a member, or override the family to serve one unchecked"
        )

    def faults(self, outcome: Outcome) -> list[str]:
        """Say of each member that cannot serve why, those with one reason together."""
        whys: dict[str, list[str]] = {}
        for each in outcome.members:
            if each.status not in ("survivor", "left"):
                whys.setdefault(f"{each.status} ({each.note})", []).append(each.name)
        return [f"{', '.join(names)}: {why}" for why, names in whys.items()]

    def result(
        self,
        member: str,
        source: Source,
        *,
        is_stored: bool = False,
        margin: int | None = None,
        tie: bool | None = None,
        outcome: Outcome | None = None,
        foreign_load: float | None = None,
        is_stand_in: bool = False,
    ) -> ChoiceResult:
        """Return the result that a member serves, with every member the filter knows."""
        return ChoiceResult(
            self.f.name,
            self.f.problem.key,
            member,
            source,
            timed=source == "timed",
            stored=is_stored,
            margin_permille=margin,
            tie=tie,
            note="; ".join(self.notes),
            members=members_of(self.f, outcome),
            memory=self.memory,
            foreign_load=foreign_load,
            check_s=None if outcome is None else outcome.check_s,
            trial_s=None if outcome is None else outcome.rounds_s,
            is_stand_in=is_stand_in,
        )


def members_of(f: ShapeFilter, outcome: Outcome | None = None) -> tuple[MemberResult, ...]:
    """Return what is known of every member that a filter was given."""
    found = {} if outcome is None else {result.name: result for result in outcome.members}
    ruled = [
        found.get(verdict.candidate.name)
        or MemberResult(
            verdict.candidate.name,
            "survivor" if verdict.is_survivor else "pruned",
            rule=verdict.rule,
            need=verdict.need,
            limit=verdict.limit,
        )
        for verdict in f.verdicts
    ]
    return (*ruled, *f.aside)
