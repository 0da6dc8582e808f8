"""The probe of the page, run on its own plan."""

from __future__ import annotations

import importlib
from pathlib import Path

from xpu import Orchestrator
from xpu.registry import Registry
from xpu.spec import ProbeContext


def test_the_probe_runs_its_plan(page, importable: Path, shipped_plugins, quiet_machine) -> None:
    page("writing-a-probe.md").write_files(importable)
    probe = importlib.import_module("xpu_probe_every_other")
    registry = Registry.from_plugins([*shipped_plugins, ("every_other", probe, "guide")])
    with Orchestrator(
        backend="cpu", registry=registry, config=importable / "probes.toml"
    ) as orchestrator:
        outcomes = list(orchestrator.run_probes(["every_other"]))
    assert [outcome.error for outcome in outcomes] == ["", ""]
    assert [outcome.result.problem for outcome in outcomes] == ["1x64x256", "1x96x256"]
    assert {outcome.result.source for outcome in outcomes} == {"timed"}


def test_the_table_names_the_whole_context(page) -> None:
    text = page("writing-a-probe.md").text
    members = {name for name in vars(ProbeContext) if not name.startswith("_")}
    members |= set(ProbeContext.__annotations__)
    assert [name for name in sorted(members) if f"`{name}" not in text] == []
