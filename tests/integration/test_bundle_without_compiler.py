"""A bundle built here binds, tunes and runs in a process that finds no compiler at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import first_party
import pytest

from xpu import Orchestrator
from xpu.adaptor import BuildCache
from xpu.bundle import BundleWriter
from xpu.orchestrator import Building, chosen_families, settings_for, targets_of, write_bundle

first_party.plugin("cpu"), first_party.plugin("kquant")

FAMILY = "q4k_matvec"

# It stands on the path of worker processes, too.
WITHOUT_ZIG = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "ziglang" else find(name, *more)
"""

CHILD = f"""
import os, shutil, sys
import numpy as np
import first_party
from xpu import Orchestrator, Problem
from xpu.errors import XpuBuildError

registry = first_party.registry("cpu", "kquant")
assert not any(map(shutil.which, ("cc", "gcc", "clang", "as", "ld")))
try:
    registry.backend("cpu").compiler()
except XpuBuildError as error:
    print("no compiler:", error)
with Orchestrator(bundle=sys.argv[1], registry=registry, tuning="first-use") as orchestrator:
    family = orchestrator.settings.family("{FAMILY}")
    design = registry.design_of(family)
    problem = Problem(m=1, n=256, k=512)
    data = design.data(problem, family.constants, np.random.default_rng())
    weights = orchestrator.prepare("{FAMILY}", data["weights"])
    kernel = orchestrator.bind("{FAMILY}", **problem.sizes)
    out = np.full((1, 256), np.nan, np.float32)
    kernel(weights, data["x"], out=out)
    result = design.arguments[-1].name
    said = design.verify(problem, family.constants, data, {{result: out}}, np.random.default_rng())
    assert said == "", said
    print("served:", kernel.result.source, [m.status for m in kernel.result.members])
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("carried")
    registry = first_party.registry("cpu", "kquant")
    few = directory / "few.toml"
    few.write_text(f"[families.{FAMILY}]\ncap = 2\n")
    settings = settings_for(registry, few)
    building = Building(registry, settings, BuildCache())
    chosen = chosen_families(settings, [FAMILY])
    steps = building.steps(chosen, targets_of(registry, ["cpu"], None))
    with BundleWriter(directory / "bundle", "0") as writer:
        write_bundle(writer, list(building.run(steps)), settings, chosen)
    return directory / "bundle"


def test_a_family_of_routes_is_in_it_though_one_has_nothing_for_the_target(tmp_path) -> None:
    registry = first_party.registry("cpu", "kquant")
    few = tmp_path / "few.toml"
    few.write_text("".join(f"[families.q4k_{name}]\ncap = 1\n" for name in ("matvec", "tile")))
    settings = settings_for(registry, few)
    chosen = chosen_families(settings, ["linear_q4k"])
    building = Building(registry, settings, BuildCache())
    builds = list(building.run(building.steps(chosen, targets_of(registry, ["cpu"], None))))
    assert {build.family.name for build in builds} == {"q4k_matvec", "q4k_tile"}
    with BundleWriter(tmp_path / "bundle", "0") as writer:
        write_bundle(writer, builds, settings, chosen)
    with Orchestrator(bundle=tmp_path / "bundle", registry=registry, tuning="off") as one:
        for rows, route in ((1, "q4k_matvec"), (4, "q4k_tile"), (100, "q4k_tile")):
            assert one.bind("linear_q4k", m=rows, n=64, k=512).member == route


def test_it_binds_tunes_and_runs_where_no_compiler_is(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_ZIG)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(bundle)],
        env={
            "PATH": str(tmp_path / "bin"),
            "HOME": str(tmp_path),
            "XPU_BUILD_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told, served = done.stdout.splitlines()
    assert told.startswith("no compiler: no C compiler was found on PATH")
    assert served in (
        "served: timed ['survivor', 'survivor', 'capped', 'capped']",
        "served: timed ['survivor', 'left', 'capped', 'capped']",
        "served: timed ['left', 'survivor', 'capped', 'capped']",
    )
    assert not list((tmp_path / "cache").rglob("*.so"))
