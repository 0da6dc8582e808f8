"""A member as the rules see it: its parameters, its launch, and what runs before that.

Members of a device at hand and of parts that are not here are considered alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from xpu.adaptor import Built, Called
from xpu.filter import ShapeFilter
from xpu.model import Family, KernelFacts, Member, Problem, ShapeCandidate, Verdict
from xpu.registry import Registry, staging_of
from xpu.spec import Launch, Preparation


@attrs.frozen
class Before:
    """What runs before a member's launches on a problem: the kernel and how it is launched."""

    preparation: Preparation
    raw_shape: tuple[int, ...]
    launch: Launch


def before_launches(
    registry: Registry,
    family: Family,
    dialect: str,
    parameters: Mapping[str, int],
    problem: Problem,
) -> list[Before]:
    """Return what runs before each launch of a member, in order."""
    design = registry.design_of(family)
    staging = staging_of(design, dialect, parameters)
    if not staging:
        return []
    shapes = design.shapes(problem, family.constants)
    return [
        Before(each, raw, each.launch(dialect, raw, family.constants))
        for each in staging
        for raw in [tuple(shapes[each.argument])]
    ]


def oversized(
    registry: Registry,
    family: Family,
    member: Member,
    dialect: str,
    problem: Problem,
    built: Built | Called,
) -> str:
    """Say which launch of a member has a larger block than its code was compiled for.

    The empty text when none has. The launches are those whose k is not split.
    """
    launch = registry.launch_for(family, dialect, member.parameters, problem)
    before = before_launches(registry, family, dialect, member.parameters, problem)
    launches = [(built, launch), *zip(built.staging, (it.launch for it in before), strict=True)]
    for code, one in launches:
        if isinstance(code, Built) and (why := code.refuses(one)):
            return why
    return ""


def considered(
    registry: Registry,
    shapes: ShapeFilter,
    family: Family,
    member: Member,
    dialect: str | None,
    built: Built | Called | None = None,
) -> Verdict:
    """Judge a member by the rules of a filter, with what runs before its launches.

    Parameters
    ----------
    dialect
        In which it is launched; None: its launch is not known.
    built
        What it was built to; None: nothing is known of its code.
    """
    launch, before, problem = Launch(), [], shapes.problem
    if dialect is not None:
        launch = registry.launch_for(family, dialect, member.parameters, problem)
        before = before_launches(registry, family, dialect, member.parameters, problem)
    facts = KernelFacts() if built is None else built.facts
    candidate = ShapeCandidate.of(
        member.name,
        {**launch_parameters(launch), **member.parameters},
        facts.code_hash,
        built.library if isinstance(built, Called) else None,
    )
    known = [KernelFacts()] * len(before) if built is None else [it.facts for it in built.staging]
    staging = [
        (
            ShapeCandidate.of(
                f"staging of {each.preparation.argument}", launch_parameters(each.launch)
            ),
            facts,
        )
        for each, facts in zip(before, known, strict=True)
    ]
    return shapes.consider(candidate, facts, staging)


def launch_parameters(launch: Launch) -> dict[str, int]:
    """Return what a launch takes, where it says so: ``threads``, ``dynamic_shared_bytes``."""
    taken = {}
    if launch.block is not None:
        taken["threads"] = launch.block[0] * launch.block[1] * launch.block[2]
    if launch.dynamic_shared_bytes:
        taken["dynamic_shared_bytes"] = launch.dynamic_shared_bytes
    return taken
