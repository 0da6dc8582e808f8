"""``xpu build``: compile members, show what the compiler made of them, and make a bundle."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpu.cli.build_report import failures, print_builds, print_gates, rows_of
from xpu.cli.output import json_option, print_json

if TYPE_CHECKING:
    from xpu.building import Building, FamilyBuild, Target
    from xpu.bundle import BundleWriter
    from xpu.model import Family
    from xpu.registry import Registry
    from xpu.settings import Settings


@click.command()
@click.argument("families", nargs=-1)
@click.option("--backend", help="Whose targets they are; else that whose compiler knows each.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="Target of a compiler, or a backend's name for this machine's; may be given again.",
)
@click.option(
    "--facts",
    "facts_path",
    type=click.Path(path_type=Path),
    help="Leave out what the device in a facts file cannot run, before the cap is counted.",
)
@click.option("--out", metavar="DIRECTORY", help="Make a bundle of all that was built here.")
@json_option
@click.pass_context
def build(
    ctx: click.Context,
    families: tuple[str, ...],
    backend: str | None,
    targets: tuple[str, ...],
    facts_path: Path | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Build FAMILIES (all that a target's dialect has, when none is named) for one or more targets.

    A family that is named and has no members for a target is refused.

    Without --target they are built for this machine. Every member is tried and reported. The
    status is 1 when a gate finds what no declaration tracks, such as a member that does not
    compile or that spills, and no bundle is made then.
    """
    ctx.with_resource(_uncollected())
    from xpu.building import chosen_families, settings_for
    from xpu.registry import default_registry

    registry = default_registry()
    settings = settings_for(registry)
    chosen = chosen_families(settings, families)
    with _bundle(out) as writer:
        builds = _built(registry, settings, families, chosen, backend, targets, facts_path)
        has_failed = any(build.has_failed for build in builds)
        if writer is not None and not has_failed:
            from xpu.building import write_bundle

            write_bundle(writer, builds, settings, chosen)
    rows = rows_of(builds)
    if as_json:
        print_json(rows)
    else:
        print_builds(rows)
        print_gates(builds)
        if out is not None and not has_failed:
            held = ", ".join(dict.fromkeys(build.target.name for build in builds))
            click.echo(f"bundle    {out}, for {held}")
    for why in failures(builds):
        click.echo(f"xpu: {why}", err=True)
    if has_failed:
        if out is not None:
            click.echo(f"xpu: {out} was not written: all of a bundle has to build", err=True)
        ctx.exit(1)


def _built(
    registry: Registry,
    settings: Settings,
    names: Sequence[str],
    chosen: Sequence[Family],
    backend: str | None,
    targets: Sequence[str],
    facts_path: Path | None,
) -> list[FamilyBuild]:
    from xpu.adaptor import BuildCache
    from xpu.building import Building, check_dialects, targets_of
    from xpu.cli.facts_file import check_target, read_facts

    facts = None
    if facts_path is not None:
        further = {name for one in registry.backends.values() for name in one.further_facts}
        facts = read_facts(facts_path, further)
    building = Building(registry, settings, BuildCache(), facts)
    wanted = targets_of(registry, targets, backend)
    if facts_path is not None and facts is not None:
        for each in wanted:
            check_target(facts_path, facts, each.backend, each.name)
    check_dialects(registry, settings, names, wanted)
    steps = building.steps(chosen, wanted)
    return _run(building, steps)


def _run(building: Building, steps: Sequence[tuple[Target, Family]]) -> list[FamilyBuild]:
    """Build step by step; an interrupt says what is kept.

    A compiler gives what it made of a family all at once: less at a time would leave it waiting
    for the slowest unit more often.
    """
    builds: list[FamilyBuild] = []
    try:
        with _progress(len(steps)) as told:
            for build in building.run(steps):
                builds.append(build)
                told(build)
    except KeyboardInterrupt as stop:
        done = f"{len(builds)} of {len(steps)} builds of a family for a target are finished"
        raise click.Abort(
            f"{done} and kept in the build cache; nothing is kept of the one that was under way"
        ) from stop
    return builds


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector from looking through all that is kept until the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _bundle(out: str | None) -> AbstractContextManager[BundleWriter | None]:
    """Return what writes the bundle: where it cannot be written is said before all is built."""
    if out is None:
        return nullcontext()
    from xpu import __version__
    from xpu.bundle import BundleWriter

    return BundleWriter(out, __version__)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[FamilyBuild], None]]:
    """Yield what takes a family after each build; in a pipe it says nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[last]}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, last="building")
        yield lambda build: progress.update(
            task, advance=1, last=f"{build.family.name} {build.target.name}"
        )
