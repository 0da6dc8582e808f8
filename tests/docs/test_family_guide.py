"""The family of the guide, built and run as it stands on the page."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import first_party
import numpy as np
import pytest

from xpu import Orchestrator, Problem
from xpu.registry import Registry, load_plugins

PACKAGE = "xpu_family_norm_matvec"


@pytest.fixture
def guide(page, importable: Path) -> Path:
    """The distribution's folder, with the files of the page and what an install would add."""
    page("writing-a-family.md").write_files(importable)
    (importable / PACKAGE / "__init__.py").touch()
    project = tomllib.loads((importable / "pyproject.toml").read_text("utf-8"))["project"]
    installed = importable / f"{PACKAGE}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = [f"{name} = {value}" for name, value in project["entry-points"]["xpu"].items()]
    (installed / "entry_points.txt").write_text("\n".join(["[xpu]", *points, ""]))
    return importable


@pytest.fixture
def registry(guide: Path, shipped_plugins) -> Registry:
    plugin = importlib.import_module(f"{PACKAGE}.plugin")
    return Registry.from_plugins([*shipped_plugins, ("norm_matvec", plugin, "guide")])


def expected(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.longdouble)
    return (weights.astype(np.longdouble) * (wide / np.sqrt((wide**2).mean()))).sum(axis=1)


def test_every_member_of_both_families_agrees_with_numpy(registry) -> None:
    rng = np.random.default_rng()
    n, k = int(rng.integers(1, 200)), int(rng.integers(1, 10_000))
    halves = rng.standard_normal((n, k)).astype(np.float32).view(np.uint32) >> 16
    fixed = rng.integers(-(2**15), 2**15, (n, k)).astype(np.int16)
    cases = {
        "norm_matvec_bf16": (halves.astype(np.uint16), (halves << 16).view(np.float32)),
        "norm_matvec_q15": (fixed.view(np.uint16), fixed / 32768),
    }
    x = (rng.standard_normal(k) * 100).astype(np.float32)
    with Orchestrator(backend="cpu", tuning="off", registry=registry) as orchestrator:
        for family, (raw, weights) in cases.items():
            right = expected(weights, x)
            allowed = 1e-4 * np.linalg.norm(weights.astype(np.float64), axis=1)
            for member in orchestrator.settings.family(family).members:
                orchestrator.override(family, member.name)
                for given in (raw, orchestrator.prepare(family, raw)):
                    y = np.full(n, np.nan, np.float32)
                    orchestrator.bind(family, n=n, k=k)(given, x, out=y)
                    assert (np.abs(y - right) <= allowed).all(), (family, member.name)


def test_the_number_of_workers_changes_no_bit(registry, monkeypatch) -> None:
    rng = np.random.default_rng()
    weights = rng.integers(0, 2**16, (67, 9000)).astype(np.uint16)
    x = rng.standard_normal(9000).astype(np.float32)
    results = []
    for workers in (1, 2, 5):
        monkeypatch.setattr("xpu_backend_cpu.machine.worker_count", lambda *_, w=workers: w)
        plugins = Registry(
            backends={"cpu": type(registry.backends["cpu"])()},
            designs=registry.designs,
            config_files=registry.config_files,
        )
        with Orchestrator(backend="cpu", tuning="off", registry=plugins) as orchestrator:
            assert orchestrator.facts.multiprocessors == workers
            y = np.empty(67, np.float32)
            orchestrator.bind("norm_matvec_q15", n=67, k=9000)(weights, x, out=y)
            results.append(y.tobytes())
    assert len(set(results)) == 1


def test_a_trial_of_the_guides_family_is_stored(registry, tmp_path: Path, quiet_machine) -> None:
    def chosen() -> tuple[str, str, bool]:
        with Orchestrator(tmp_path / "store", backend="cpu", registry=registry) as orchestrator:
            result = orchestrator.choose("norm_matvec_bf16", Problem(n=64, k=512))
            assert {member.name for member in result.members} == {"rows4", "rows32", "wide"}
            assert {member.status for member in result.members} <= {"survivor", "left"}
            return result.member, result.source, result.stored

    member, source, is_stored = chosen()
    assert (source, is_stored) == ("timed", True)
    assert chosen() == (member, "stored", True)


@pytest.mark.parametrize(
    ("family", "sizes", "words"),
    [
        ("norm_matvec_q15", {"n": 3, "k": 0}, "k = 0 has no root mean square"),
        ("norm_matvec_q15", {"n": 3}, "n, k"),
    ],
)
def test_what_the_design_refuses_is_said(registry, family, sizes, words) -> None:
    from xpu.errors import XpuConfigError

    with (
        Orchestrator(backend="cpu", tuning="off", registry=registry) as orchestrator,
        pytest.raises(XpuConfigError, match=words),
    ):
        orchestrator.bind(family, **sizes)


def test_the_entry_point_of_the_page_is_found(guide: Path) -> None:
    records = {record.name: record for record in load_plugins().records}
    assert records["norm_matvec"].state == "loaded"
    assert records["norm_matvec"].distribution == "xpu-family-norm-matvec"


def test_the_test_of_the_page_passes(guide: Path) -> None:
    first_party.plugin("cpu")  # something must run its kernels
    inherited = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "tests"],
        cwd=guide,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(guide), inherited])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"\b(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 7 + 30, done.stdout  # its own, and those of the kit


def test_the_prelude_table_names_what_the_prelude_has(page, root: Path) -> None:
    first_party.plugin("cpu")
    header = (root / "plugins/backends/cpu/xpu_backend_cpu/runtime/xpu_c.h").read_text("utf-8")
    text = page("writing-a-family.md").text
    table = text[text.index("| `XPU_KERNEL") : text.index("The kernel function runs")]
    named = set(re.findall(r"\b(XPU_[A-Z]+|xpu_take)\b", table))
    assert named == {"XPU_KERNEL", "XPU_PHASES", "XPU_SCRATCH", "XPU_ENTRY", "xpu_take"}
    assert all(name in header for name in named)
    fields = set(re.findall(r"team->(\w+)", table))
    assert fields == {"worker", "workers", "phase", "scratch"}
