"""``xpu bench``: the time of every survivor on one problem, without asking or telling a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from xpu.cli.output import (
    device_options,
    json_option,
    margin,
    memory_option,
    nanoseconds,
    print_json,
    print_table,
    say_what_is_forced,
    say_where_more_is,
)
from xpu.errors import XpuConfigError

if TYPE_CHECKING:
    from xpu.model import ChoiceResult, Family, Member, MemberResult
    from xpu.orchestrator import Orchestrator


@click.command()
@click.argument("family")
@click.argument("problem")
@memory_option
@device_options
@json_option
def bench(
    family: str,
    problem: str,
    memory: str | None,
    backend: str | None,
    device: int,
    as_json: bool,
) -> None:
    """Time a FAMILY's members on a PROBLEM such as 512x4096x4096."""
    from xpu.cli.places import open_orchestrator
    from xpu.model import Problem
    from xpu.orchestrator import forced_member

    with open_orchestrator(backend, device, with_store=False) as orchestrator:
        declared = orchestrator.settings.family(family)
        asked = Problem.parse(declared.problem, problem)
        if 0 in asked.sizes.values():
            raise XpuConfigError(
                f"{family} {asked.key}: with a size of 0 nothing is launched, so there is nothing "
                "to time; give sizes of 1 or more"
            )
        design = orchestrator.registry.design_of(declared)
        result = orchestrator.choose(family, asked, memory=memory)
        if result.source == "only":
            [alone] = orchestrator.time_members(family, result.problem, result.memory)
            result = _of_one(result, alone)
        document = {
            "device": orchestrator.facts.name or orchestrator.facts.backend,
            "default": _default(declared, orchestrator.backend.dialect, result),
            "override": forced_member(declared.name),
            "operations": design.operations(asked),
            "bytes": design.bytes_touched(asked, declared.constants),
            **_measured(result),
        }
        _add_shares(document, orchestrator, declared)
    if as_json:
        print_json(document)
    else:
        _print(document, {member.name: member.brief for member in result.members})


def _measured(result: ChoiceResult) -> dict[str, Any]:
    return {
        "family": result.family,
        "problem": result.problem,
        "memory": result.memory,
        "choice": result.member or None,
        "serving": result.serving or None,
        "margin_permille": result.margin_permille,
        "tie": result.tie,
        "note": _note(result),
        "members": [
            {
                "name": member.name,
                "serving": member.serving or None,
                "status": member.status,
                "median_ns": member.median_ns,
                "rounds": member.rounds,
                "note": member.note,
            }
            for member in result.members
        ],
    }


def _add_shares(document: dict[str, Any], orchestrator: Orchestrator, family: Family) -> None:
    """Say of each member what share of the device's measured peak and bandwidth it reaches."""
    from xpu.store import Calibrations

    found = Calibrations().find(orchestrator.calibrator.key)
    document["calibration"] = None if found is None else str(found.path)
    for member in document["members"]:
        median_ns = member["median_ns"]
        owner, declared = _declared(family, member)
        peak = bandwidth = None
        if found is not None and declared is not None and median_ns:
            design = orchestrator.registry.design_of(owner)
            named = design.arithmetic(orchestrator.backend.dialect, declared.parameters)
            figure = None if named is None else f"{named}_per_s"
            per_s = 1e9 / median_ns
            peak = found.record.share(figure, document["operations"] * per_s)
            bandwidth = found.record.share("read_bytes_per_s", document["bytes"] * per_s)
        member["peak_share"], member["bandwidth_share"] = peak, bandwidth


def _default(family: Family, dialect: str, result: ChoiceResult) -> str | None:
    """Name the default; of routes, the first that takes part on the problem."""
    if not family.routes:
        return family.default_for(dialect)
    return next((each.name for each in result.members if each.status != "pruned"), None)


def _declared(family: Family, member: dict[str, Any]) -> tuple[Family, Member | None]:
    """Return a member of a table and its family; of a route, the member that serves there."""
    route = family.route(member["name"])
    if route is None:
        return family, family.member(member["name"])
    return route.family, route.family.member(member["serving"] or "")


def _of_one(result: ChoiceResult, alone: MemberResult) -> ChoiceResult:
    """Return a result with the time of the only member that could run, and with what to say."""
    members = [
        attrs.evolve(alone, serving=one.serving) if one.name == alone.name else one
        for one in result.members
    ]
    result = attrs.evolve(result, members=tuple(members))
    if alone.status != "survivor":
        note = f"no member can serve: {alone.name} is {alone.status}"
        return attrs.evolve(result, member="", note=note)
    note = f"{alone.name} alone can run; there is nothing to compare it with"
    return attrs.evolve(result, note=note)


def _note(result: ChoiceResult) -> str:
    """Return a result's note; of a contended device it says what concerns times alone."""
    from xpu.choice.foreign_load import load_percent, note_without_load

    notes = [note_without_load(result)]
    if result.foreign_load is not None and result.is_contended:
        percent = load_percent(result.foreign_load)
        notes.append(f"{percent} % of the device was held by others: do not trust these times")
    return "; ".join(filter(None, notes))


def _print(document: dict[str, Any], notes: dict[str, str]) -> None:
    def rate(amount: int, median_ns: float | None) -> str | None:
        return f"{amount / median_ns:.1f}" if amount and median_ns else None

    def share(part: float | None) -> str | None:
        return None if not part else f"{100 * part:.1f} %"

    marks = {document["choice"]: "winner", document["default"]: "default"}
    if document["choice"] == document["default"]:
        marks = {document["choice"]: "winner, default"}
    print_table(
        f"{document['device']}: {document['family']} {document['problem']}, {document['memory']}",
        [
            *("member", "status", "median", "Gop/s", "of peak", "GB/s", "of bandwidth"),
            *("rounds", "", "note"),
        ],
        [
            [
                member["name"] + (f" ({member['serving']})" if member["serving"] else ""),
                member["status"],
                nanoseconds(member["median_ns"]),
                rate(document["operations"], member["median_ns"]),
                share(member["peak_share"]),
                rate(document["bytes"], member["median_ns"]),
                share(member["bandwidth_share"]),
                member["rounds"],
                marks.get(member["name"], ""),
                notes[member["name"]],
            ]
            for member in document["members"]
        ],
    )
    say_where_more_is(notes.values())
    if document["margin_permille"] is not None:
        click.echo(f"margin {margin(document['margin_permille'], is_tie=document['tie'])}")
    if document["note"]:
        click.echo(document["note"])
    say_what_is_forced(document["family"], document["override"])
