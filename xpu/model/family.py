"""Families, members, rules and bucket policies, as TOML declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from xpu.model._facts import frozen_mapping
from xpu.model.declarations import Declarations
from xpu.model.member import Member

Constant = int | str


@attrs.frozen
class Route:
    """A family that serves in another one; `when` is an expression over ``problem.*``.

    It takes part on problems for which that holds; on all of them when it is None.
    """

    family: Family
    when: str | None = None

    @property
    def member(self) -> Member:
        """The route as a member: named by its family, in the dialects of that one's members."""
        spoken = [member.dialects for member in self.family.members]
        if None in spoken:
            return Member(self.family.name)
        named = dict.fromkeys(dialect for dialects in spoken for dialect in dialects or ())
        return Member(self.family.name, dialects=tuple(named))


@attrs.frozen
class Family:
    """A design, fixed constants and the members to choose from.

    `buckets` names a policy for each size, `default` a member for each dialect (or for
    ``*``: every dialect), `cap` is the most members built for one target. `requires`
    are expressions over ``member.*`` that every member must satisfy, its design's among them.
    `declared` is what the family declares of its kernels besides its design. A family of
    `routes` has one member for each of them, and the design and constants of the first.
    """

    name: str
    design: str
    problem: tuple[str, ...]
    members: tuple[Member, ...]
    constants: Mapping[str, Constant] = attrs.field(factory=dict, converter=frozen_mapping)
    buckets: Mapping[str, str] = attrs.field(factory=dict, converter=frozen_mapping)
    default: Mapping[str, str] = attrs.field(factory=dict, converter=frozen_mapping)
    cap: int = 8
    requires: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    declared: Declarations = attrs.field(factory=Declarations)

    @classmethod
    def of_routes(
        cls, name: str, problem: tuple[str, ...], routes: Sequence[Route], **keys: Any
    ) -> Family:
        """Make a family of one or more routes; `keys` are further ones of it."""
        first = routes[0].family
        return cls(
            name,
            first.design,
            problem,
            tuple(route.member for route in routes),
            first.constants,
            cap=len(routes),
            routes=tuple(routes),
            **keys,
        )

    def route(self, name: str) -> Route | None:
        """Return a route by the name of its family; None when there is none of that name."""
        return next((route for route in self.routes if route.family.name == name), None)

    def member(self, name: str) -> Member | None:
        """Return a member by name; None when there is none of that name."""
        return next((member for member in self.members if member.name == name), None)

    def for_dialect(self, dialect: str) -> tuple[Member, ...]:
        """Return the members that exist in a dialect, in declared order."""
        return tuple(member for member in self.members if member.speaks(dialect))

    def within_cap(self, names: Sequence[str], dialect: str) -> tuple[str, ...]:
        """Return the first of some members, as many as the cap allows, in their order.

        The default of the dialect is among them wherever it stands: what is chosen by
        measurement must never be worse than what serves without.
        """
        if len(names) <= self.cap:
            return tuple(names)
        default = self.default_for(dialect)
        kept = [name for name in names if name == default]
        kept += [name for name in names if name != default][: self.cap - len(kept)]
        return tuple(name for name in names if name in kept)

    def default_for(self, dialect: str) -> str | None:
        """Name the default of a dialect: the declared one, else its first member."""
        named = self.default.get(dialect) or self.default.get("*")
        if named is not None:
            return named
        members = self.for_dialect(dialect)
        return members[0].name if members else None


@attrs.frozen
class Rule:
    """One feasibility rule. `need`, `limit`, `prune_when` and `records` are expressions."""

    id: str
    title: str
    need: str | int | float | None = None
    limit: str | int | float | None = None
    prune_when: str | None = None
    records: Mapping[str, str | int | float] = attrs.field(factory=dict, converter=frozen_mapping)


@attrs.frozen
class BucketPolicy:
    """How one size is rounded before an answer is looked up.

    `kind` is ``exact``, ``pow2``, ``list`` or ``linear``; `round` is ``up``, ``down`` or
    ``nearest``; `values` are a list's buckets, `step` a linear policy's width. A size
    below `least` or above `most` is out of bucket.
    """

    name: str
    kind: str
    round: str = "up"
    least: int = 0
    most: int | None = None
    values: tuple[int, ...] = ()
    step: int | None = None


@attrs.frozen
class ProbePlan:
    """What a probe is asked to look at: families, problem keys and the memory mode."""

    name: str
    families: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    memory: str = "warm"
