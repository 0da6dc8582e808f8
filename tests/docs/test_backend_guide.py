"""The toy backend of the guide, run as it stands on the page."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from xpu import Orchestrator, Problem
from xpu.cli.skeleton import write_skeleton
from xpu.errors import XpuLaunchException
from xpu.registry import Registry
from xpu.spec import Backend, Compiler, Device


@pytest.fixture
def registry(page, importable: Path) -> Registry:
    page("writing-a-backend.md").write_files(importable)
    (importable / "xpu_backend_toy/__init__.py").touch()
    modules = ("xpu_backend_toy.plugin", "xpu_family_twice")
    registry = Registry.from_plugins([(m, importlib.import_module(m), m) for m in modules])
    assert [record.state for record in registry.records] == ["loaded", "loaded"]
    return registry


@pytest.fixture
def make(registry, tmp_path: Path):
    return lambda **more: Orchestrator(
        tmp_path / "store", backend="toy", registry=registry, build_cache=tmp_path / "b", **more
    )


def test_the_toy_is_what_the_command_writes(page, tmp_path: Path) -> None:
    made = write_skeleton("backend", "toy", tmp_path)
    written = {name: (made.directory / name).read_text("utf-8") for name in made.files}
    shown = page("writing-a-backend.md").files
    both = {"xpu_backend_toy/backend.py", "xpu_backend_toy/plugin.py"}
    assert both <= set(written)
    assert {name: shown[name] for name in both} == {name: written[name] for name in both}


def test_it_computes_tunes_and_remembers(make) -> None:
    n = int(np.random.default_rng().integers(30_000, 60_000))
    x = np.random.default_rng().standard_normal(n).astype(np.float32)
    for source in ("timed", "stored"):
        with make(tuning="first-use") as orchestrator:
            y = np.full(n, np.nan, np.float32)
            kernel = orchestrator.bind("twice", n=n)
            kernel(x, out=y)
            np.testing.assert_array_equal(y, x + x)
            assert (kernel.member, kernel.result.source) == ("large", source)
            assert str(orchestrator.store.device_key) == "toy-mp1"


def test_what_its_compiler_refuses_is_a_failed_member(make, importable: Path) -> None:
    import xpu_family_twice

    xpu_family_twice.KERNEL += "\nthis is no python\n"
    with make() as orchestrator, pytest.raises(XpuLaunchException, match="invalid syntax"):
        orchestrator.bind("twice", n=10)


def test_a_kernel_that_ends_its_process_costs_one_member(make, importable: Path) -> None:
    import xpu_family_twice

    xpu_family_twice.KERNEL += "    import os\n    XPU_STEP == 16 and os._exit(3)\n"
    with make() as orchestrator:
        result = orchestrator.choose("twice", Problem(n=100))
        assert {m.name: m.status for m in result.members} == {
            "small": "crashed",
            "large": "survivor",
        }


def test_a_number_that_is_no_device_is_refused(make) -> None:
    with pytest.raises(XpuLaunchException, match="asked for 1"):
        make(device=1)


def test_the_lines_at_the_end_run(page, importable: Path, registry, monkeypatch) -> None:
    monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)
    assert page("writing-a-backend.md").run_python({}) == 1


@pytest.mark.parametrize("half", [Backend, Compiler, Device])
def test_the_tables_name_every_method(page, half) -> None:
    text = page("writing-a-backend.md").text
    section = text.split(f"\n## `{half.__name__}`\n")[1].split("\n## ")[0]
    members = {name for name in vars(half) if not name.startswith("_")}
    members |= set(half.__annotations__)
    assert [name for name in sorted(members) if f"`{name}" not in section] == []
