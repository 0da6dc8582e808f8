"""What a benchmark says: the machine, how busy it was, a table, notes; as text and as JSON.

The text is Markdown that reads well in a terminal. The benchmarks beside it import it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import xpu
from xpu import Orchestrator

BUSY: Final = 0.1
"""Share of the cores held by others from which on figures are not to be quoted: a side whose
threads wait for each other at barriers loses more by it than one whose threads do not."""
PATIENCE_S: Final = 60.0
"""Seconds that one run may wait for the machine to be quiet, in all."""
_LOOK_S: Final = 1.0
_GLANCE_S: Final = 0.2


class Sheet:
    """A table with what it rests on and what is to be said of it.

    Parameters
    ----------
    title
        First line of the text.
    columns
        Heading and format of each column by the key that rows use.
    conditions
        What the figures rest on, by name.
    """

    def __init__(
        self,
        title: str,
        columns: Mapping[str, tuple[str, str]],
        conditions: Mapping[str, str],
    ) -> None:
        self._title, self._columns = title, columns
        self.conditions = dict(conditions)
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def add(self, **row: Any) -> None:
        """Add a row and show it at once; a key that is no column goes to the JSON only.

        ``load`` is the share that others held meanwhile.
        """
        self.rows.append(row)
        print(f"  {' | '.join(self._cells(row))}", file=sys.stderr, flush=True)

    def finish(self, args: argparse.Namespace, **more: Any) -> None:
        """Print the text, and write what `arguments` offered and was asked for.

        `more` goes to the JSON only.
        """
        text = self.text()
        print(text)
        if args.markdown:
            args.markdown.write_text(text + "\n", "utf-8")
        if args.json:
            document = {
                "title": self._title,
                "conditions": self.conditions,
                "rows": self.rows,
                "notes": self.notes,
                **more,
            }
            args.json.write_text(json.dumps(document, indent=1, ensure_ascii=False), "utf-8")

    def text(self) -> str:
        """Return everything as Markdown."""
        titles = [title for title, _ in self._columns.values()]
        cells = [titles, *(self._cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        facts = [f"- {name}: {value}" for name, value in self.conditions.items()]
        return "\n".join(
            [f"# {self._title}", "", *facts, "", *lines, "", *(f"- {n}" for n in self.notes)]
        )

    def _cells(self, row: Mapping[str, Any]) -> list[str]:
        return [
            "-" if row.get(key) is None else form.format(row[key])
            for key, (_, form) in self._columns.items()
        ]


class Report(Sheet):
    """One benchmark's findings on a device, and how busy that was.

    Parameters
    ----------
    title, columns
        As of a sheet.
    orchestrator
        Whose device and compiler are described, and whose device says what others hold.
    conditions
        What else the figures rest on, by name.
    """

    def __init__(
        self,
        title: str,
        columns: Mapping[str, tuple[str, str]],
        orchestrator: Orchestrator,
        **conditions: str,
    ) -> None:
        super().__init__(title, columns, {**machine(orchestrator), **conditions})
        self._patience_s = PATIENCE_S
        self._device = orchestrator.backend.open()  # its counters are this report's own
        self._what = "cores" if orchestrator.facts.backend == "cpu" else "device"
        self._look("before")

    def load(self) -> float | None:
        """Return the share of the device (a host's cores) that others held of late, 0 to 1."""
        return self._device.foreign_load()

    def wait_quiet(self) -> None:
        """Wait while others hold much of the machine, as long as there is patience left."""
        while self._patience_s > 0:
            self.load()
            time.sleep(_GLANCE_S)
            if (self.load() or 0.0) < BUSY:
                return
            self._patience_s -= _GLANCE_S

    def finish(self, args: argparse.Namespace, **more: Any) -> None:
        """Look around once more, print the text, and write what was asked for."""
        self._look("after")
        busy = sum((row.get("load") or 0) >= BUSY for row in self.rows)
        self._warn(busy > 0, f"others held {BUSY:.0%} of the {self._what} or more in {busy} rows")
        super().finish(args, **more)

    def _look(self, when: str) -> None:
        self.load()
        time.sleep(_LOOK_S)
        share = self.load()
        if share is not None:
            self.conditions[f"held by others, {when}"] = f"{share:.0%} of the {self._what}"
            self._warn(share >= BUSY, f"others held {share:.0%} of the {self._what} {when}")

    def _warn(self, is_busy: bool, what: str) -> None:
        if is_busy:
            self.notes.append(f"WARNING: {what}: measure again when it is quiet")
            print(self.notes[-1], file=sys.stderr, flush=True)


def arguments(text: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the printed text")
    return parser


def machine(orchestrator: Orchestrator) -> dict[str, str]:
    """Return what figures rest on: part, driver, compiler and versions."""
    facts = orchestrator.facts
    cache = (facts.last_level_cache_bytes or 0) >> 20
    units = {"cores": f"{facts.multiprocessors} of {os.cpu_count()}"}
    if facts.backend != "cpu":
        units = {"multiprocessors": f"{facts.multiprocessors}", "host cores": f"{os.cpu_count()}"}
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "part": f"{facts.name} ({facts.architecture}), last-level cache {cache} MiB",
        **units,
        "driver": f"{facts.driver_version}",
        "compiler": orchestrator.backend.compiler().identity,
        "versions": f"XPU {xpu.__version__}, Python {platform.python_version()}, "
        f"numpy {np.__version__}",
    }
