"""What a member is made of, and the member that comes of it when its parts are there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import attrs

from xpu.adaptor.built import Built, Called
from xpu.adaptor.units import macros
from xpu.errors import XpuBuildError
from xpu.model import Family, Member
from xpu.spec import Design, KernelUnit

R = TypeVar("R")


@attrs.frozen(eq=False)
class Recipe:
    """What a member is made of: its own unit or a library's routine, and the units before it."""

    own: KernelUnit | None
    called: Called | None
    staging: tuple[KernelUnit, ...]

    @property
    def units(self) -> tuple[KernelUnit, ...]:
        """All that is compiled for it."""
        return self.staging if self.own is None else (self.own, *self.staging)


def units_of(recipes: Mapping[str, Recipe | XpuBuildError]) -> list[KernelUnit]:
    """Return all units of members that are not refused."""
    made = [recipe for recipe in recipes.values() if isinstance(recipe, Recipe)]
    return [unit for recipe in made for unit in recipe.units]


def joined(
    own: Built | Called | XpuBuildError | None, staging: Sequence[Built | XpuBuildError | None]
) -> Built | Called | XpuBuildError | None:
    """Return a member with what runs before it; else the error of a part, or None for one."""
    parts = (own, *staging)
    failed = next((part for part in parts if isinstance(part, XpuBuildError)), None)
    if failed is not None or own is None or isinstance(own, XpuBuildError):
        return failed
    if not staging:
        return own
    before = [part for part in staging if isinstance(part, Built)]
    return attrs.evolve(own, staging=tuple(before)) if len(before) == len(staging) else None


def explained(result: R, family: Family, design: Design, member: Member) -> R | XpuBuildError:
    """Name the parameters that a failed member does not set and its source asks for."""
    if not isinstance(result, XpuBuildError):
        return result
    known = {*design.parameters, *(name for one in family.members for name in one.parameters)}
    words = set(re.findall(r"\w+", str(result)))
    asked = [
        f'"{name}"'
        for name in sorted(known - member.parameters.keys())
        if words & macros({name: 1}).keys()
    ]
    if not asked:
        return result
    return type(result)(f"member {member.name} sets no {', '.join(asked)}: {result}")
