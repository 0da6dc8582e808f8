"""``xpu calibrate``: what this device can do at most, and what using it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from xpu.cli.output import device_options, json_option, nanoseconds, print_json, print_table
from xpu.errors import XpuError
from xpu.model import FIGURES, Calibration
from xpu.store import CalibrationFile, Calibrations

if TYPE_CHECKING:
    from xpu.orchestrator import Calibrator, Measurement


@click.command()
@click.option("--show", is_flag=True, help="Show the record that serves; measure nothing.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the record to this file instead of the cache directory.",
)
@device_options
@json_option
@click.pass_context
def calibrate(
    ctx: click.Context,
    show: bool,
    out: Path | None,
    backend: str | None,
    device: int,
    as_json: bool,
) -> None:
    """Measure peaks, bandwidth and costs of a device, and keep them.

    `xpu bench` then says of each member what share of them it reaches. The figures hold for
    this part, driver, compiler and power mode; what cannot be measured here is absent.
    """
    from xpu.cli.places import open_orchestrator

    if show and out is not None:
        raise click.UsageError("--out goes with a measurement, --show makes none")
    with open_orchestrator(backend, device, with_store=False) as orchestrator:
        calibrator = orchestrator.calibrator
        if show:
            _print(_serving(calibrator), [], as_json)
            return
        path = out or Calibrations().path_of(calibrator.key)
        earlier = Calibrations().at(path, calibrator.key)
        measured = _measured(calibrator, earlier, path)
        failed = [one.figure for one in measured if one.value is None]
        if len(failed) == len(measured):
            raise XpuError(f"nothing could be measured: {measured[0].note}")
        record = _record(calibrator, measured, earlier)
        _print(CalibrationFile(record, path, False), measured, as_json)
        if not as_json:
            _say_what_serves(calibrator, path)
    if failed:
        ctx.exit(1)


def _measured(calibrator: Calibrator, earlier: Calibration | None, path: Path) -> list[Measurement]:
    """Measure, and keep what there is after each figure: an interruption loses none."""
    from rich.console import Console

    if not calibrator.designs:
        raise XpuError(
            "no installed plugin has a measuring kernel in this backend's dialect; see: xpu doctor"
        )
    measured: list[Measurement] = []
    console = Console(stderr=True)
    with ExitStack() as stack:
        status = stack.enter_context(console.status("measuring")) if console.is_terminal else None
        for one in calibrator.measure():
            measured.append(one)
            if one.value is not None:
                Calibrations().keep(_record(calibrator, measured, earlier), path)
            if status is not None:
                status.update(f"{len(measured)} measured, {one.figure}")
    return measured


def _record(
    calibrator: Calibrator, measured: Iterable[Measurement], earlier: Calibration | None
) -> Calibration:
    """Return what was measured, with the earlier figures that this run has not (yet) measured."""
    figures = {one.figure: one.value for one in measured if one.value is not None}
    day = datetime.now().astimezone().date().isoformat()
    return Calibration(calibrator.key, figures, day).completed(earlier)


def _serving(calibrator: Calibrator) -> CalibrationFile:
    found = Calibrations().find(calibrator.key)
    if found is None:
        key = attrs.asdict(calibrator.key)
        named = ", ".join(f"{name} {text}" for name, text in key.items() if text)
        raise XpuError(f"nothing is known of {named}; measure it with: xpu calibrate")
    return found


def _say_what_serves(calibrator: Calibrator, path: Path) -> None:
    found = Calibrations().find(calibrator.key)
    click.echo(f"kept in {path}")
    if found is not None and found.path != path:
        click.echo(f"what serves is {'shipped' if found.is_shipped else 'kept'} in {found.path}")


def _print(file: CalibrationFile, measured: Sequence[Measurement], as_json: bool) -> None:
    record, notes = file.record, {one.figure: one.note for one in measured}
    if as_json:
        print_json(
            {
                "key": attrs.asdict(record.key),
                "measured": record.measured,
                "path": str(file.path),
                "shipped": file.is_shipped,
                "figures": {name: record.figures.get(name) for name in FIGURES},
                "notes": notes,
            }
        )
        return
    key = record.key
    texts = (key.device, f"driver {key.driver}", key.compiler, key.power and f"power {key.power}")
    print_table(
        f"{', '.join(filter(None, texts))}; measured {record.measured}",
        ["figure", "value", "what it is", "how"],
        [
            [name, quantity(name, record.figures.get(name)), what, notes.get(name)]
            for name, what in FIGURES.items()
        ],
    )


def quantity(figure: str, value: float | None) -> str | None:
    """Write a figure with the unit that its name ends in, and a prefix that suits it."""
    if value is None:
        return None
    if figure.endswith("_ns"):
        return nanoseconds(value)
    unit = "op/s" if figure.endswith("_per_s") else "B"
    unit = "B/s" if figure.endswith("_bytes_per_s") else unit
    prefixes = ("", "k", "M", "G", "T", "P")
    power = min(max(int(math.log10(value)) // 3, 0), len(prefixes) - 1)
    return f"{value / 1000**power:.4g} {prefixes[power]}{unit}"
