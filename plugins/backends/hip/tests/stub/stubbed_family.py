"""A shipped family, built into a bundle, bound from it without a compiler, tuned and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hip_stub import StubbedHip

from xpu import Orchestrator, Problem
from xpu.adaptor import BuildCache
from xpu.bundle import BundleWriter
from xpu.errors import XpuBuildError
from xpu.orchestrator import Building, chosen_families, settings_for, targets_of, write_bundle
from xpu.testing import registry_of
from xpu_backend_hip.backend import HipBackend

kquant = pytest.importorskip("xpu_family_kquant.plugin", reason="the family is a plugin's")
FAMILY = "q4k_matvec"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("carried")
    few = directory / "few.toml"
    few.write_text(f"[families.{FAMILY}]\ncap = 2\n")
    registry = registry_of(StubbedHip(), kquant)
    settings = settings_for(registry, few)
    building = Building(registry, settings, BuildCache(directory / "cache"))
    chosen = chosen_families(settings, [FAMILY])
    steps = building.steps(chosen, targets_of(registry, ["gfx1151"], None))
    with BundleWriter(directory / "bundle", "0") as writer:
        write_bundle(writer, list(building.run(steps)), settings, chosen)
    return directory / "bundle"


def test_it_is_bound_tuned_and_run_where_no_compiler_is(bundle, opened, monkeypatch) -> None:
    from xpu_backend_hip import toolchain

    def none() -> None:
        raise XpuBuildError("nobody may ask for a compiler")

    monkeypatch.setattr(toolchain, "find_toolchain", none)
    registry = registry_of(HipBackend(), kquant)
    with Orchestrator(bundle=bundle, registry=registry, tuning="first-use") as orchestrator:
        family = orchestrator.settings.family(FAMILY)
        design = registry.design_of(family)
        problem = Problem(m=1, n=64, k=256)
        rng = np.random.default_rng()
        data = design.data(problem, family.constants, rng)
        weights = orchestrator.prepare(FAMILY, opened.from_host(data["weights"]))
        kernel = orchestrator.bind(FAMILY, **problem.sizes)
        x, out = (opened.from_host(array) for array in (data["x"], np.full((1, 64), np.nan, "f4")))
        kernel(weights, x, out=out)
        opened.synchronize()
        results = {design.arguments[-1].name: opened.to_host(out)}
        assert design.verify(problem, family.constants, data, results, rng) == ""
        statuses = [member.status for member in kernel.result.members]
    assert kernel.result.source in ("timed", "only")
    assert not {"failed", "wrong", "crashed", "hung"} & set(statuses), statuses
