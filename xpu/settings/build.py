"""Families, bucket policies and probe plans made of the merged tables, each checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import attrs

from xpu.buckets import check_policy
from xpu.errors import XpuConfigError
from xpu.expressions import Names
from xpu.model import (
    DEVICE_FACT_NAMES,
    MEMBER_PARAMETERS,
    PREPARATION,
    BucketPolicy,
    Family,
    Member,
    ProbePlan,
    Problem,
    nearest,
)
from xpu.settings.declared import (
    KEYS,
    check_declared,
    declarations,
    place_of,
    requirements,
)
from xpu.settings.formulas import checked, hold_for
from xpu.settings.merge import Entry, FamilyEntry
from xpu.settings.places import Place, shown
from xpu.spec.design import Design

_NOTHING: Final[frozenset[str]] = frozenset()
_CORE_DIALECTS: Final = frozenset({"c", "simt"})


@attrs.frozen(eq=False)
class Vocabulary:
    """What plugins declare, so far as configuration may name it.

    Attributes
    ----------
    designs
        Loaded designs by name.
    device_facts
        Names of device facts, those that backends declare among them.
    dialects
        Source dialects that a backend or a design knows.
    missing
        Plugins that are not loaded, with the reason, for messages.
    """

    designs: Mapping[str, Design] = attrs.field(factory=dict)
    device_facts: frozenset[str] = DEVICE_FACT_NAMES
    dialects: frozenset[str] = _NOTHING
    missing: tuple[str, ...] = ()


def build_buckets(entries: Mapping[str, Entry]) -> dict[str, BucketPolicy]:
    """Make the bucket policies; ``exact`` is there whether or not a file declares it.

    Raises
    ------
    XpuConfigError
        A policy cannot be used.
    """
    policies = {"exact": BucketPolicy("exact", "exact")}
    for name, entry in entries.items():
        policy = policies[name] = BucketPolicy(name, **_tuples(entry.values))
        problem = check_policy(policy)
        if problem:
            raise entry.place().error(problem)
    return policies


def build_families(
    entries: Mapping[str, FamilyEntry], policies: Collection[str], vocabulary: Vocabulary
) -> tuple[dict[str, Family], dict[str, str]]:
    """Make the families whose design is loaded; say of each other one why it is dormant.

    Those of routes are made of these: see `xpu.settings.routes`.

    Raises
    ------
    XpuConfigError
        A family or one of its members cannot be used.
    """
    families: dict[str, Family] = {}
    dormant: dict[str, str] = {}
    looked_at: set[tuple[object, ...]] = set()
    for name, entry in entries.items():
        _check_sizes(entry, policies)
        if entry.routes:
            continue
        _check_defaults(entry)
        reason = _why_dormant(entry, vocabulary)
        if reason:
            for text in entry.values.get("requires", ()):
                checked(text, entry.place("requires"))
            dormant[name] = reason
        else:
            _check_against_design(entry, vocabulary)
            # What a family has of another is checked once.
            members = (entry.values["design"], *map(id, entry.members.values()))
            same = (*members, *entry.values.get("requires", ()))
            check_declared(entry, _parameters(entry, vocabulary))
            if same not in looked_at:
                looked_at.add(same)
                _check_members(entry, vocabulary)
            families[name] = _family(name, entry, vocabulary.designs[entry.values["design"]])
    return families, dormant


def build_probes(
    entries: Mapping[str, Entry], families: Mapping[str, Family], dormant: Collection[str]
) -> dict[str, ProbePlan]:
    """Make the probe plans; families that are dormant are left out of them.

    Raises
    ------
    XpuConfigError
        A plan names a family that nobody declares, or a problem that is none.
    """
    plans: dict[str, ProbePlan] = {}
    for name, entry in entries.items():
        _known(entry.values["families"], {*families, *dormant}, entry.place("families"))
        active = [family for family in entry.values["families"] if family in families]
        for family in active:
            for key in entry.values.get("problems", ()):
                _parse(key, families[family], entry.place("problems"))
        plans[name] = ProbePlan(name, **_tuples(entry.values | {"families": active}))
    return plans


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in values.items()}


def _known(names: Iterable[str], allowed: Collection[str], place: Place) -> None:
    for name in names:
        if name not in allowed:
            raise place.error(f"found {shown(name)}; {nearest(name, allowed)}")


def _parse(key: str, family: Family, place: Place) -> None:
    try:
        problem = Problem.parse(family.problem, key)
    except XpuConfigError as error:
        raise place.error(f"found {shown(key)} for family {family.name!r}; {error}") from None
    if 0 in problem.sizes.values():
        raise place.error(f"found {shown(key)}; allowed: sizes of 1 or more, else nothing is timed")


def _check_sizes(entry: FamilyEntry, policies: Collection[str]) -> None:
    for size, policy in entry.values.get("buckets", {}).items():
        place = entry.place("buckets", size)
        _known([size], entry.values["problem"], place)
        _known([policy], policies, place)


def _check_defaults(entry: FamilyEntry) -> None:
    for dialect, name in entry.values.get("default", {}).items():
        place = entry.place("default", dialect)
        _known([name], entry.members, place)
        speaks = entry.members[name].values.get("dialects")
        if speaks is not None and dialect not in ("*", *speaks):
            raise place.error(
                f"found {shown(name)}, whose dialects are {', '.join(speaks)}; allowed: a member "
                f"that exists in dialect {dialect!r}"
            )


def _why_dormant(entry: FamilyEntry, vocabulary: Vocabulary) -> str:
    """Say why a family has no design; a user's own misspelling is an error instead.

    With every plugin loaded, a name in a user's file that no plugin brings is a mistake.
    In a shipped or a plugin's file, or beside a plugin that is not loaded, it may be right.
    """
    design = entry.values["design"]
    if design in vocabulary.designs:
        return ""
    place = entry.place("design")
    if place.file.is_users and vocabulary.designs and not vocabulary.missing:
        _known([design], vocabulary.designs, place)
    reason = f"no loaded plugin brings its design {design!r}; {nearest(design, vocabulary.designs)}"
    if vocabulary.missing:
        reason += f"; plugins not loaded: {', '.join(vocabulary.missing)} (see `xpu doctor`)"
    return reason


def _check_against_design(entry: FamilyEntry, vocabulary: Vocabulary) -> None:
    design = vocabulary.designs[entry.values["design"]]
    sizes = entry.values["problem"]
    _known(sizes, design.problem, entry.place("problem"))
    if len(sizes) != len(design.problem):
        raise entry.place("problem").error(
            f"found {', '.join(sizes)}; design {design.name!r} takes {', '.join(design.problem)}"
        )
    dialects = _CORE_DIALECTS | vocabulary.dialects
    _known(entry.values.get("default", {}).keys() - {"*"}, dialects, entry.place("default"))
    _check_constants(entry, design)


def _parameters(entry: FamilyEntry, vocabulary: Vocabulary) -> frozenset[str]:
    """Return what a member of a family may set."""
    return MEMBER_PARAMETERS.union(vocabulary.designs[entry.values["design"]].parameters)


def _check_members(entry: FamilyEntry, vocabulary: Vocabulary) -> None:
    design = vocabulary.designs[entry.values["design"]]
    dialects = _CORE_DIALECTS | vocabulary.dialects
    parameters = _parameters(entry, vocabulary)
    for member in entry.members.values():
        if member.values["name"] == PREPARATION:
            raise member.place("name").error(
                f"found {shown(PREPARATION)}, which names the weight preparation wherever a "
                "member is named; give the member another name"
            )
        _known(member.values.get("dialects", ()), dialects, member.place("dialects"))
        for key in member.values.keys() - {"name", "dialects"} - parameters:
            _known([key], parameters, member.place(key))
    names = Names(device=_NOTHING, kernel=_NOTHING, member=parameters, problem=_NOTHING)
    hold_for(entry.values.get("requires", ()), entry, entry.members.values(), names)
    if design.declared.requires:
        said = place_of(design, *entry.path)
        hold_for(design.declared.requires, said, entry.members.values(), names)


def _check_constants(entry: FamilyEntry, design: Design) -> None:
    try:
        problem = design.check_constants(entry.values.get("constants", {}))
    except Exception as error:
        problem = f"design {design.name!r} failed on them: {type(error).__name__}: {error}"
    if problem:
        raise entry.place("constants").error(problem)


def _family(name: str, entry: FamilyEntry, design: Design) -> Family:
    members = tuple(_member(member.values) for member in entry.members.values())
    values = {key: value for key, value in entry.values.items() if key not in KEYS}
    values["requires"] = requirements(design, values.get("requires", ()))
    declared = declarations(entry.values)
    return Family(name, members=members, declared=declared, **_tuples(values))


def _member(values: Mapping[str, Any]) -> Member:
    dialects = values.get("dialects")
    return Member(
        values["name"],
        {key: value for key, value in values.items() if key not in ("name", "dialects")},
        None if dialects is None else tuple(dialects),
    )
